/* A log entry and the length of the log are stored in the right order and flushed in the wrong one. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line length;
  struct line entry[4];
};

static void append(struct pool *pool, uint64_t number) {
  STORE(pool->entry[number].word[0], number + 1); // confirmed: delayed-persist // expect: unpersisted-read // missing-store: recovery-failed
  STORE(pool->length.word[0], number + 1);
  PERSIST(pool->length); // expect: recovery-failed
  PERSIST(pool->entry[number]);
}

static int recover(const struct pool *pool) {
  for (uint64_t at = 0; at < pool->length.word[0]; at++)
    REQUIRE(pool->entry[at].word[0] == at + 1);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t number = 0; number < 3; number++)
    append(pool, number);
  return 0;
}
