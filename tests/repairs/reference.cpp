/* The object is known by a reference. */
#include "../pm.h"
#include <cstddef>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

static void set(uint64_t &word, uint64_t value) {
  word = value;
  // repair: flush(&word, sizeof word);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  persist(pm, 64);
  set(pm[0].word[1], 5);
  set(pm[1].word[1], 6);
  pm[2].word[0] = 1;
  persist(&pm[2].word[0], 8);
  return 0;
}
