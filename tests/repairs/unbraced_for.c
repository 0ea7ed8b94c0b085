/* The body of a loop is one store. */
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
  flush(pm, 4 * sizeof *pm);
  for (int i = 0; i < 4; i++)
    pm[i].word[0] = i + 1;
  // repair: flush(pm, 4 * sizeof *pm);
  pm[9].word[0] = 1;
  persist(&pm[9].word[0], 8);
  return 0;
}
