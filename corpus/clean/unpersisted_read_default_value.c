/* The value is durable before the mark that it is set. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line value, is_set;
};

static void set(struct pool *pool, uint64_t value) {
  SET(pool->value.word[0], value);
  SET(pool->is_set.word[0], 1);
}

static int recover(const struct pool *pool) {
  uint64_t value = pool->is_set.word[0] ? pool->value.word[0] : 0;
  REQUIRE(value == 0 || value == 42);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  set(pool, 42);
  return 0;
}
