/* Records are found by their offsets in the pool. The offset is durable before the record. */
// variants: clwb clflushopt
#include "../pm.h"

struct pool {
  uint64_t newest;
  char gap[56];
  struct line records[8];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 3; i++) {
    struct line *record = &pool->records[i];
    STORE(record->word[0], i + 1);
    STORE(record->word[1], pool->newest);
    STORE(pool->newest, (uint64_t)((char *)record - (char *)pool)); // expect: unpersisted-target
    PERSIST(pool->newest);
    FLUSH(*record); // expect: flush-covers-many
    FENCE();
  }
  return 0;
}
