/* A structure is assigned as a whole, over two cache lines. */
#include "../pm.h"

struct pair {
  struct line a, b;
};

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
  struct pair *pair = (struct pair *)pm;
  struct pair new_pair = {.a.word = {1, 2}, .b.word = {3, argc}};
  flush(pair, sizeof *pair);
  *pair = new_pair;
  // repair: flush(pair, sizeof *pair);
  pm[9].word[0] = 1;
  persist(&pm[9].word[0], 8);
  return 0;
}
