/* No fence stands between the flush of a value and the store that announces it. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line value, valid;
};

static void publish(struct pool *pool, uint64_t value) {
  STORE(pool->value.word[0], value); // expect: unpersisted-read // missing-store: recovery-failed
  FLUSH(pool->value);
  STORE(pool->valid.word[0], 1);
  PERSIST(pool->valid); // confirmed: fence-orders-many // expect: recovery-failed
}

static int recover(const struct pool *pool) {
  REQUIRE(!pool->valid.word[0] || pool->value.word[0] == 42);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  publish(pool, 42);
  return 0;
}
