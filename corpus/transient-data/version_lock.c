/* The version of each node is its lock, too: the last but one bit says that it is held. It lies beside data, and needs no flush. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct node {
  uint64_t version, key, value;
};

static void insert(struct node *node, uint64_t key) {
  uint64_t free;
  do {
    free = *(volatile uint64_t *)&node->version & ~2ul;
  } while (!__sync_bool_compare_and_swap(&node->version, free, free + 2));
  STORE(node->value, key * key);
  STORE(node->key, key);
  PERSIST(*node);                          // expect: flush-covers-many
  __sync_fetch_and_add(&node->version, 2); // expect: transient-data, dirty-overwrite
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t key = 1; key < 11; key++)
    insert((struct node *)&pm[key % 4], key);
  return 0;
}
