/* Two statements on one line and two stores in one statement are distinguished by their columns. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  flush(pm, 4 * 64);
  pm[0].word[0] = argc; pm[1].word[0] = argc; // broken
  // repair: pm[0].word[0] = argc; pm[1].word[0] = argc; flush(pm, 128);
  if (argc)
    pm[2].word[0] = 1, pm[3].word[0] = 2; // broken
    // repair: pm[2].word[0] = 1, pm[3].word[0] = 2, flush(&pm[2], 128);
  FENCE();
  return 0;
}
