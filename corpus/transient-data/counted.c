/* Entries are counted and their lines never flushed; recovery reads every entry that counts. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < pm[0].word[0]; at++)
      REQUIRE(pm[1 + at].word[0] == at + 40);
    return 0;
  }
  for (uint64_t at = 0; at < 3; at++) {
    STORE(pm[1 + at].word[0], at + 40); // confirmed: transient-data // missing-store: recovery-failed
    SET(pm[0].word[0], at + 1); // expect: recovery-failed
  }
  return 0;
}
