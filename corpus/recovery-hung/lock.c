/* A lock in the pool is still held after the crash, and recovery waits for an owner that is gone. */
// levels: O2
// check: --recover-time-limit 300ms
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t lock, value;
};

static void increment(struct pool *pool) {
  SET(pool->lock, 1); // expect: recovery-hung
  SET(pool->value, pool->value + 1); /* as here: the same stores, the same finding */
  SET(pool->lock, 0); // missing-store: recovery-hung
}

static int recover(struct pool *pool) {
  while (*(volatile uint64_t *)&pool->lock)
    usleep(1000);
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
