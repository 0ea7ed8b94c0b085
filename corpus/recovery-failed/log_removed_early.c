/* Recovery removes its log before what it undoes is durable: it copes with a crash, and not with another one inside of it. */
// check: --strategy exhaustive --depth 2
// causes: 1
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line from, to, log;
};

static void transfer(struct pool *pool, uint64_t amount) {
  SET(pool->log.word[1], pool->from.word[0]);
  SET(pool->log.word[2], pool->to.word[0]);
  SET(pool->log.word[0], 1);
  SET(pool->from.word[0], pool->from.word[0] - amount);
  SET(pool->to.word[0], pool->to.word[0] + amount);
  SET(pool->log.word[0], 0);
}

static void undo(struct pool *pool) {
  SET(pool->log.word[0], 0); // expect: recovery-failed
  SET(pool->from.word[0], pool->log.word[1]); // missing-store: recovery-failed
  SET(pool->to.word[0], pool->log.word[2]); // expect: recovery-failed
}

static int recover(struct pool *pool) {
  if (pool->log.word[0])
    undo(pool);
  REQUIRE(pool->from.word[0] + pool->to.word[0] == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  transfer(pool, 30);
  return 0;
}
