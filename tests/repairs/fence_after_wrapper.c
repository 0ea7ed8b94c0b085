/* A wrapper flushes: the fence belongs to its caller. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pm[1].word[0] = 1;
  persist(&pm[1].word[0], 8);
  pm->word[0] = 1;
  flush(&pm->word[0], 8);
  // repair: FENCE();
  return 0;
}
