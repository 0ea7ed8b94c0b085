/* When the table is replaced, the locks of the old one are taken and never released: no flush is forgotten. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct bucket {
  uint64_t lock, key;
};

static void insert(struct bucket *bucket, uint64_t key) {
  __sync_bool_compare_and_swap(&bucket->lock, 0, 1);
  STORE(bucket->key, key);
  PERSIST(*bucket);     // expect: flush-covers-many
  MOV(bucket->lock, 0); // expect: transient-data, dirty-overwrite
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  insert((struct bucket *)&pm[0], 1);
  insert((struct bucket *)&pm[0], 2);
  __sync_bool_compare_and_swap(&pm[0].word[0], 0, 2); // expect: transient-data
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  return 0;
}
