/* After a new version was linked, its object is flushed again instead of the pointer to it. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line current, done;
  struct line version[2];
};

static void update(struct pool *pool, uint64_t number) {
  uint64_t slot = number % 2;
  SET(pool->version[slot].word[0], number);
  STORE(pool->current.word[0], slot); // confirmed: transient-data // expect: unpersisted-read // missing-store: recovery-failed
  PERSIST(pool->version[slot]); // expect: redundant-flush
  SET(pool->done.word[0], number); // expect: recovery-failed
}

static int recover(const struct pool *pool) {
  REQUIRE(pool->version[pool->current.word[0]].word[0] >= pool->done.word[0]);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t number = 1; number <= 3; number++)
    update(pool, number);
  return 0;
}
