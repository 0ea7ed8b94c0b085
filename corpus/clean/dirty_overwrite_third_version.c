/* Eight versions are announced by their count, and each is durable before it is counted. The third is overwritten
 * later. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { VERSIONS = 8, CHANGED = 2 };

static void add(struct line *pm, uint64_t at) {
  STORE(pm[at + 1].word[0], at + 40);
  PERSIST(pm[at + 1]);
  SET(pm[0].word[0], at + 1);
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
  STORE(pm[CHANGED + 1].word[0], 100);
  PERSIST(pm[CHANGED + 1]);
  return 0;
}
