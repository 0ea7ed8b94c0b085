/* An index entry counts before it points to its record: recovery follows a null pointer. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t entries, index[8];
  struct line records[8];
};

static struct line *record(struct pool *pool, uint64_t entry) {
  uint64_t offset = pool->index[entry];
  return offset == 0 ? NULL : (struct line *)((char *)pool + offset);
}

static void add(struct pool *pool, uint64_t value) {
  uint64_t entry = pool->entries;
  SET(pool->records[entry].word[0], value);
  SET(pool->entries, entry + 1); // expect: recovery-crashed
  SET(pool->index[entry], (char *)&pool->records[entry] - (char *)pool); // missing-store: recovery-crashed
}

static int recover(struct pool *pool) {
  uint64_t sum = 0;
  for (uint64_t entry = 0; entry < pool->entries; entry++)
    sum += *(volatile uint64_t *)&record(pool, entry)->word[0];
  printf("%d\n", (int)sum);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t value = 1; value < 4; value++)
    add(pool, value);
  return 0;
}
