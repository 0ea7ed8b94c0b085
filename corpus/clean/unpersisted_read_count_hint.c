/* The count of entries is durable after each entry. Recovery reads it as a hint where to begin. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line count, entry[4];
};

static void append(struct pool *pool, uint64_t number) {
  SET(pool->entry[number].word[0], number + 1);
  SET(pool->count.word[0], number + 1);
}

static int recover(const struct pool *pool) {
  uint64_t number = pool->count.word[0];
  while (number < 4 && pool->entry[number].word[0] != 0)
    number++;
  REQUIRE(number <= 4);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t number = 0; number < 3; number++)
    append(pool, number);
  return 0;
}
