/* Nothing follows the store: it needs a flush and a fence. */
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
  flush(pm, 8);
  pm->word[0] = 1;
  persist(&pm->word[0], sizeof pm->word[0]);
  pm->word[0] = 2;
  // repair: persist(&pm->word[0], sizeof pm->word[0]);
  return 0;
}
