/* A node is linked before it is persistent. */
#include "../pm.h"

struct node {
  struct node *next;
  uint64_t value;
  char pad[48];
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

int main(int argc, char **argv) {
  struct node *pool = (struct node *)map_pool(argv[1]);
  struct node *node = &pool[3];
  node->value = argc;
  node->next = NULL;
  // repair: persist(node, sizeof *node);
  pool->next = node;
  persist(&pool->next, sizeof pool->next);
  return 0;
}
