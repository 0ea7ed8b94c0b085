/* The commit mark of a line is stored before the value that shares the line with it. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line record;
};

static void commit(struct pool *pool, uint64_t value) {
  STORE(pool->record.word[1], 1);
  STORE(pool->record.word[0], value); // missing-store: recovery-failed
  PERSIST(pool->record); // expect: flush-covers-many, recovery-failed
}

static int recover(const struct pool *pool) {
  REQUIRE(!pool->record.word[1] || pool->record.word[0] == 42);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  commit(pool, 42);
  return 0;
}
