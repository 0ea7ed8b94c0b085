/* Each node of a list is linked before it is durable. */
// variants: clwb clflushopt
#include "../pm.h"

struct node {
  uint64_t value;
  struct node *next;
  char gap[48];
};

struct list {
  struct node *head;
  char gap[56];
  struct node nodes[8];
};

static void push(struct list *list, struct node *node, uint64_t value) {
  STORE(node->value, value);
  STORE(node->next, list->head);
  STORE(list->head, node); // expect: unpersisted-target
  PERSIST(list->head);
  FLUSH(*node); // expect: flush-covers-many
  FENCE();
}

int main(int argc, char **argv) {
  struct list *list = (struct list *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 3; i++)
    push(list, &list->nodes[i], i + 1);
  return 0;
}
