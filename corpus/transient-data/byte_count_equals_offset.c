/* The number of bytes in use reaches the offset of statistics, which are lost on purpose. */
// variants: clwb clflushopt
#include "../pm.h"

struct pool {
  uint64_t used;
  char gap[56];
  char data[1984];
  uint64_t statistics[8];
};

int main(int argc, char **argv) {
  char *bytes = (char *)map_pool(argv[1]);
  struct pool *pool = (struct pool *)bytes;
  for (uint64_t used = 64; used < sizeof pool->data; used += 32) {
    STORE(pool->statistics[0], used);      // expect: transient-data
    STORE(pool->statistics[1], used / 32); // expect: transient-data
    STORE(*(uint64_t *)(bytes + used), used);
    PERSIST(*(uint64_t *)(bytes + used));
    STORE(pool->used, used + 32);
    PERSIST(pool->used);
  }
  return 0;
}
