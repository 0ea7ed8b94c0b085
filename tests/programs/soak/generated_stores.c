/* Generated code that stores to persistent memory, and locked instructions, ever new at the same and at other places. */
#include "soak.h"

/* lock incl (%rdi); movl $number, 4(%rdi) or movb $number, 4(%rdi); ret */
static void write_store(unsigned char *at, int number, int wide) {
  static const unsigned char locked[] = {0xf0, 0xff, 0x07};
  memcpy(at, locked, 3);
  at += 3;
  *at++ = wide ? 0xc7 : 0xc6;
  *at++ = 0x47;
  *at++ = 4;
  memcpy(at, &number, 4);
  at[wide ? 4 : 1] = 0xc3;
}

int main(int argc, char **argv) {
  soak_start(argc, argv);
  int all = PROT_READ | PROT_WRITE | PROT_EXEC;
  volatile int *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, soak_file(4096), 0);
  check(map != MAP_FAILED);
  for (int round = 1; soak_on(); round++) {
    size_t length = (size_t)(round % 4 + 1) * 4096;
    unsigned char *code = mmap(NULL, length, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(code != MAP_FAILED);
    for (size_t at = 0; at < length; at += 256) {
      write_store(code + at, round & 127, round % 2);
      int before = map[0];
      ((void (*)(volatile int *))(code + at))(map);
      check(map[0] == before + 1 && (map[1] & 127) == (round & 127));
    }
    check(munmap(code, length) == 0);
  }
  say("stored");
  return 0;
}
