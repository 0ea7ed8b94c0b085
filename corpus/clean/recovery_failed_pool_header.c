/* The layout of a pool is durable before its header says that the pool is complete. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line header, layout;
};

static void create(struct pool *pool) {
  SET(pool->layout.word[0], 4);
  SET(pool->header.word[0], 0xb10c);
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
