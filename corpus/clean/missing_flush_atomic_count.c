/* A count that is incremented by a locked instruction is flushed like other data. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct table {
  uint64_t newest, count;
};

int main(int argc, char **argv) {
  struct table *table = (struct table *)map_pool(argv[1]);
  for (uint64_t key = 1; key < 9; key++) {
    STORE(table->newest, key);
    PERSIST(table->newest);
    LOCK_INC(table->count);
    PERSIST(table->count);
  }
  return 0;
}
