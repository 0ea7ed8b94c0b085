/* One record is found by its offset in the pool, which is durable before the record: recovery shows that it is no count. */
// variants: clwb clflushopt
// recover: {program} {dir}/pool check
#include "../pm.h"

struct pool {
  uint64_t root;
  char gap[56];
  struct line records[8];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2) {
    struct line *record = (struct line *)((char *)pool + pool->root);
    return pool->root != 0 && (record->word[0] != 1 || record->word[1] != 2);
  }
  struct line *record = &pool->records[2];
  STORE(record->word[0], 1);
  STORE(record->word[1], 2);
  STORE(pool->root, (uint64_t)((char *)record - (char *)pool)); // confirmed: unpersisted-target
  PERSIST(pool->root);
  FLUSH(*record); // expect: flush-covers-many
  FENCE();
  return 0;
}
