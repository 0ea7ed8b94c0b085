/* The garbage collector frees a block before the reference to it is durably gone. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line reference;
  struct line is_used[2];
};

static void collect(struct pool *pool) {
  STORE(pool->reference.word[0], 0); // confirmed: delayed-persist // expect: unpersisted-read // missing-store: recovery-failed
  SET(pool->is_used[1].word[0], 0); // expect: recovery-failed
  PERSIST(pool->reference);
}

static int recover(const struct pool *pool) {
  uint64_t block = pool->reference.word[0];
  REQUIRE(block == 0 || pool->is_used[block].word[0]);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(pool->is_used[1].word[0], 1);
  SET(pool->reference.word[0], 1);
  collect(pool);
  return 0;
}
