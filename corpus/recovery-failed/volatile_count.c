/* Recovery trusts a count that the program keeps in the pool and never makes durable. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line count;
  struct line entry[4];
};

static void insert(struct pool *pool, uint64_t number) {
  SET(pool->entry[number].word[0], number + 1); // expect: recovery-failed
  STORE(pool->count.word[0], number + 1); // confirmed: transient-data // expect: unpersisted-read // missing-store: recovery-failed
}

static int recover(const struct pool *pool) {
  uint64_t found = 0;
  while (found < 4 && pool->entry[found].word[0])
    found++;
  REQUIRE(pool->count.word[0] + 1 >= found);
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
