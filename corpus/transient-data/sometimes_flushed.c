/* A line of code forgets a flush of two records; one of them is flushed at another time, the other never. One mistake. */
// causes: 1
#include "../pm.h"

static __attribute__((noinline)) void update(struct line *record, uint64_t value) {
  STORE(record->word[0], value); // expect: missing-flush, transient-data
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  for (int i = 0; i < 3; i++) {
    update(&pm[1], i + 2);
    update(&pm[8], i + 2);
  }
  return 0;
}
