/* A lock in the pool may still be held after the crash; recovery breaks it, as its owner is gone. */
// levels: O2
// check: --recover-time-limit 300ms
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t lock, value;
};

static void increment(struct pool *pool) {
  SET(pool->lock, 1);
  SET(pool->value, pool->value + 1);
  SET(pool->lock, 0);
}

static int recover(struct pool *pool) {
  if (pool->lock)
    SET(pool->lock, 0);
  increment(pool);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  increment(pool);
  return 0;
}
