/* The store is in an else branch without braces, behind a comment. */
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
  if (argc > 5)
    persist(pm, 8);
  else // broken
    pm->word[0] = 1; // the count // broken
  // repair: else {
  // repair:   pm->word[0] = 1; // the count
  // repair:   flush(&pm->word[0], 8);
  // repair: }
  pm[1].word[0] = 1;
  persist(&pm[1].word[0], 8);
  return 0;
}
