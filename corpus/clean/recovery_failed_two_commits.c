/* The transfer is one store, of a word that holds both ends. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line from;
};

static void transfer(struct pool *pool, uint64_t amount) {
  SET(pool->from.word[0], (100 - amount) << 32 | amount);
}

static int recover(const struct pool *pool) {
  uint64_t from = pool->from.word[0] >> 32, to = (uint32_t)pool->from.word[0];
  REQUIRE(from == 0 || from + to == 100);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(pool->from.word[0], 100UL << 32);
  transfer(pool, 30);
  return 0;
}
