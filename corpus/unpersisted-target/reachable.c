/* A new node is durable when it is linked, but the value that it points to is not. */
// variants: clwb clflushopt
#include "../pm.h"

struct node {
  uint64_t key;
  struct line *value;
};

struct pool {
  struct node *root;
  char gap[56];
  struct node node;
  char gap2[48];
  struct line value;
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  STORE(pool->value.word[0], 1);
  STORE(pool->node.key, 2);
  STORE(pool->node.value, &pool->value); // expect: unpersisted-target
  FLUSH(pool->node); // expect: flush-covers-many
  FENCE();
  STORE(pool->root, &pool->node);
  PERSIST(pool->root);
  PERSIST(pool->value);
  return 0;
}
