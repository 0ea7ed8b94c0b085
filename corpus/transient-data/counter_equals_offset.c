/* A counter reaches the offset of statistics, which are lost on purpose. */
// variants: clwb clflushopt
#include "../pm.h"

struct pool {
  uint64_t count;
  char gap[56];
  uint64_t statistics[8];
  char rest[1920];
  uint64_t items[256];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 150; i++) {
    STORE(pool->statistics[i % 8], i);  // expect: transient-data
    STORE(pool->items[i], i + 1000);
    PERSIST(pool->items[i]);
    STORE(pool->count, i + 1);
    PERSIST(pool->count);
  }
  return 0;
}
