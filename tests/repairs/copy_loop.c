/* A function copies words for volatile and persistent memory; its caller names all that it stores. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void copy_words(uint64_t *to, const uint64_t *from, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    to[i] = from[i] + 1;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  uint64_t first[24], second[24];
  flush(pm, 24 * 8);
  FENCE();
  for (unsigned i = 0; i < 24; i++)
    first[i] = i;
  copy_words(second, first, 20 + argc);
  copy_words(first, second, 20 + argc);
  copy_words(pm->word, first, 20 + argc);
  // repair: flush(pm->word, (20 + argc) * 8);
  FENCE();
  return 0;
}
