/* A function that persists its argument is called with memory from malloc. */
// variants: clwb clflushopt clflush
#include "../pm.h"

static void save(struct line *line, uint64_t value) {
  STORE(line->word[0], value);
  FLUSH(*line); // expect: flush-volatile
  FENCE();
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]), *copy = aligned_alloc(64, 64);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  save(copy, 2);
  STORE(pm[0].word[0], copy->word[0]);
  PERSIST(pm[0]);
  free(copy);
  return 0;
}
