/* The newest entry is counted and never flushed; recovery reads every entry that counts. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < pm[0].word[0]; at++)
      REQUIRE(pm[1].word[at] == at + 40);
    return 0;
  }
  SET(pm[1].word[0], 40);
  SET(pm[0].word[0], 1);
  STORE(pm[1].word[1], 41); // confirmed: missing-flush
  SET(pm[0].word[0], 2);
  return 0;
}
