/* Both ends of a transfer are durable at once, but one after the other: everything is flushed, and nothing is atomic. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line from, to;
};

static void transfer(struct pool *pool, uint64_t amount) {
  SET(pool->from.word[0], 100 - amount); // expect: recovery-failed
  SET(pool->to.word[0], amount); // expect: recovery-failed // missing-store: recovery-failed
}

static int recover(const struct pool *pool) {
  uint64_t from = pool->from.word[0], to = pool->to.word[0];
  REQUIRE(from == 0 || from + to == 100);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(pool->from.word[0], 100);
  transfer(pool, 30);
  return 0;
}
