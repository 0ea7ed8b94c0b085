/* The address of the store has an effect: it is saved. */
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
  uint64_t *next = pm->word;
  flush(pm, 64);
  *next++ = 7;
  // repair: flush(next - 1, 8);
  pm[1].word[0] = *next;
  persist(&pm[1].word[0], 8);
  return 0;
}
