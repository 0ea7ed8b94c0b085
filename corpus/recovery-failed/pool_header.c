/* The header of a pool says that the pool is complete before its layout is durable, so that it cannot be opened. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line header, layout;
};

static void create(struct pool *pool) {
  STORE(pool->layout.word[0], 4); // expect: unpersisted-read // missing-store: recovery-failed
  STORE(pool->header.word[0], 0xb10c);
  FLUSH(pool->layout); // expect: recovery-failed
  FLUSH(pool->header);
  FENCE(); // confirmed: fence-orders-many
}

static int recover(const struct pool *pool) {
  if (pool->header.word[0] != 0xb10c)
    return 0;
  REQUIRE(pool->layout.word[0] == 4);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  create(pool);
  return 0;
}
