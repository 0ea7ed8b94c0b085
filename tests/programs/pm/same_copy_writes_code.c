/* One copying instruction stores to persistent memory and then to code that has already run. */
#include "../code/generated.h"
#include "pm.h"

static void copy(void *to, const void *from, long count) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  check(count == 0);
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(code != MAP_FAILED);
  for (int i = 0; i < 200; i++) {
    unsigned char function[64] = {0};
    write_function(function, i);
    copy(map + 64 * i, function, sizeof function);
    copy(code + 64 * (i % 5), function, sizeof function);
    copy(code + 4096 + 64 * (i % 3), function, sizeof function);
    check(call(code + 64 * (i % 5)) == i && call(code + 4096 + 64 * (i % 3)) == i);
  }
  say("copied");
  return 0;
}
