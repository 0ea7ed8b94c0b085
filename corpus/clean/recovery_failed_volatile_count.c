/* The count of entries is kept in ordinary memory, and recovery counts them itself. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line entry[4];
};

static uint64_t count;

static void insert(struct pool *pool, uint64_t number) {
  SET(pool->entry[number].word[0], number + 1);
  count = number + 1;
}

static int recover(const struct pool *pool) {
  while (count < 4 && pool->entry[count].word[0] == count + 1)
    count++;
  for (uint64_t at = count; at < 4; at++)
    REQUIRE(pool->entry[at].word[0] == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t number = 0; number < 3; number++)
    insert(pool, number);
  return 0;
}
