/* Eight versions are announced by their count; the third is not flushed before it is counted. It is overwritten and flushed
 * later, so that only recovery of the state in between shows what is wrong. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { VERSIONS = 8, FORGOTTEN = 2 };

static void add(struct line *pm, uint64_t at) {
  STORE(pm[at + 1].word[0], at + 40); // confirmed: dirty-overwrite // missing-store: recovery-failed
  if (at != FORGOTTEN)
    PERSIST(pm[at + 1]);
  SET(pm[0].word[0], at + 1); // expect: recovery-failed
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < pm[0].word[0]; at++)
      REQUIRE(pm[at + 1].word[0] >= at + 40);
    return 0;
  }
  for (uint64_t at = 0; at < VERSIONS; at++)
    add(pm, at);
  STORE(pm[FORGOTTEN + 1].word[0], 100);
  PERSIST(pm[FORGOTTEN + 1]);
  return 0;
}
