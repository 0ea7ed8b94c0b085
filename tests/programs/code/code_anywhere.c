/* Code high, low, below 2 GiB and at addresses the program asks for. */
#include "generated.h"

int main(void) {
  uintptr_t hints[] = {0x10000, 0x200000, 0x30000000, 0x7f000000, 0x123456000, 0x400000000000, 0x200000000000, 0x10000000000};
  for (unsigned i = 0; i < sizeof hints / sizeof *hints; i++) {
    unsigned char *page = mmap((void *)hints[i], 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == MAP_FAILED) {
      printf("%#lx: %s\n", hints[i], strerror(errno));
      continue;
    }
    check((uintptr_t)page == hints[i]);
    write_function(page, (int)i);
    check(call(page) == (int)i);
  }
  unsigned char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  check(low != MAP_FAILED && (uintptr_t)low + 4096 <= 0x80000000);
  write_function(low, 32);
  check(call(low) == 32);
  say("anywhere");
  return 0;
}
