/* The next of two copies is written and chosen by one write-back. Each update goes to the other copy, and a crash can lose all of its
 * stores or only the last one: one msync before the switch repairs all of that. */
// levels: O0
// causes: 1
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { PAGE_LINES = 64, COUNT = 6 };

static uint64_t *copy(struct line *pm, uint64_t number) {
  return pm[(1 + number) * PAGE_LINES].word;
}

static int move_one(struct line *pm, uint64_t from) {
  uint64_t next = !pm[0].word[0];
  const uint64_t *old = copy(pm, !next);
  uint64_t *new = copy(pm, next);
  for (uint64_t at = 0; at < COUNT; at++)
    STORE(new[at], old[at]); // missing-store: recovery-failed
  STORE(new[from], old[from] - 1);
  STORE(new[from + 1], old[from + 1] + 1);
  STORE(pm[0].word[0], next);
  return msync(pm, 3 * 4096, MS_SYNC); // expect: recovery-failed
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    uint64_t sum = 0;
    for (uint64_t at = 0; at < COUNT; at++)
      sum += copy(pm, pm[0].word[0])[at];
    REQUIRE(sum == 0 || sum == 60);
    return 0;
  }
  STORE(copy(pm, 0)[0], 60);
  int failed = msync(pm, 2 * 4096, MS_SYNC);
  for (uint64_t from = 0; from + 1 < COUNT; from++)
    failed |= move_one(pm, from);
  return failed;
}
