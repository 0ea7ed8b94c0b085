/* A lock of each bucket lies in the cache line of its data, and needs no flush: a crash can leave it held anyway. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct bucket {
  uint64_t lock, key, value;
};

static void insert(struct bucket *bucket, uint64_t key) {
  while (!__sync_bool_compare_and_swap(&bucket->lock, 0, 1)) {
  }
  STORE(bucket->value, key * key);
  STORE(bucket->key, key);
  PERSIST(*bucket);     // expect: flush-covers-many
  MOV(bucket->lock, 0); // expect: transient-data, dirty-overwrite
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t key = 1; key < 9; key++)
    insert((struct bucket *)&pm[key % 4], key);
  return 0;
}
