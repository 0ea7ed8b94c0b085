/* A hint is never flushed, and recovery does not need it. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(pm[0].word[0] <= 3 && pm[1].word[0] <= 3);
    return 0;
  }
  for (uint64_t at = 0; at < 3; at++) {
    STORE(pm[1].word[0], at + 1); // expect: transient-data
    SET(pm[0].word[0], at + 1);
  }
  return 0;
}
