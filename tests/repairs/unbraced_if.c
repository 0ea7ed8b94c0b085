/* The only statement of a branch gets braces. */
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
  flush(pm, 64);
  persist(&pm->word[1], 8);
  if (argc > 1) // broken
    pm->word[0] = 1; // broken
  // repair: if (argc > 1) {
  // repair:   pm->word[0] = 1;
  // repair:   flush(&pm->word[0], 8);
  // repair: }
  pm[1].word[0] = 1;
  persist(&pm[1].word[0], 8);
  return 0;
}
