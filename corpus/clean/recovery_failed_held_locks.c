/* The pool says which lock recovery has to release, from before it is taken. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { NODES = 2 };

struct pool {
  /* The number of the node, plus one. */
  struct line held;
  struct line lock[NODES], value[NODES];
};

static void update(struct pool *pool, uint64_t node) {
  SET(pool->held.word[0], node + 1);
  SET(pool->lock[node].word[0], 1);
  SET(pool->value[node].word[0], 1);
  SET(pool->lock[node].word[0], 0);
  SET(pool->held.word[0], 0);
}

static int recover(struct pool *pool) {
  if (pool->held.word[0] != 0)
    SET(pool->lock[pool->held.word[0] - 1].word[0], 0);
  for (uint64_t node = 0; node < NODES; node++)
    REQUIRE(pool->lock[node].word[0] == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t node = 0; node < NODES; node++)
    update(pool, node);
  return 0;
}
