/* Addresses and offsets are stored when their targets are durable; targets may be changed afterwards. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct pool {
  struct line *newest;
  char gap[56];
  uint64_t offset;
  char gap2[56];
  struct line records[8];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 4; i++) {
    struct line *record = &pool->records[i];
    STORE(record->word[0], i + 1);
    PERSIST(*record);
    STORE(record->word[1], i * i);
    PERSIST(*record);
    STORE(pool->newest, record);
    PERSIST(pool->newest);
    STORE(pool->offset, (uint64_t)((char *)record - (char *)pool));
    PERSIST(pool->offset);
    STORE(record->word[1], i + 2);
    PERSIST(*record);
  }
  return 0;
}
