/* A child points to its parent before the parent is durable. Nothing leads to either of them until both are. */
// variants: clwb clflushopt
#include "../pm.h"

struct node {
  uint64_t key;
  struct node *link;
  char gap[48];
};

struct pool {
  struct node *root;
  char gap[56];
  struct node parent, child;
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  STORE(pool->parent.key, 1); // expect: delayed-persist
  STORE(pool->parent.link, &pool->child); // expect: delayed-persist
  STORE(pool->child.key, 2);
  STORE(pool->child.link, &pool->parent);
  FLUSH(pool->child); // expect: flush-covers-many
  FENCE();
  FLUSH(pool->parent); // expect: flush-covers-many
  FENCE();
  STORE(pool->root, &pool->parent);
  PERSIST(pool->root);
  return 0;
}
