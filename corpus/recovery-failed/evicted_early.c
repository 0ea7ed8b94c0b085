/* A flag says that a record is there. Both are stored, and then flushed in the right order; but the cache may write back the
 * line of the flag before that, when the record is not durable yet. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void add(struct line *pm, uint64_t at) {
  STORE(pm[8 + at].word[0], at + 40); // missing-store: recovery-failed
  STORE(pm[at].word[0], 1);
  PERSIST(pm[8 + at]); // expect: recovery-failed
  PERSIST(pm[at]);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < 3; at++)
      REQUIRE(!pm[at].word[0] || pm[8 + at].word[0] == at + 40);
    return 0;
  }
  for (uint64_t at = 0; at < 3; at++)
    add(pm, at);
  return 0;
}
