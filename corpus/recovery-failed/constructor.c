/* The constructor of a record flushes the first of its two lines only. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line root;
  struct line record[2];
};

static void construct(struct pool *pool, uint64_t key) {
  STORE(pool->record[0].word[0], key);
  STORE(pool->record[1].word[0], key * 10); // confirmed: transient-data // expect: unpersisted-read // missing-store: recovery-failed
  FLUSH(pool->record[0]);
  FENCE();
}

static int recover(const struct pool *pool) {
  REQUIRE(!pool->root.word[0] || pool->record[1].word[0] == pool->record[0].word[0] * 10);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  construct(pool, 7);
  SET(pool->root.word[0], 1); // expect: recovery-failed
  return 0;
}
