/* A node is linked before its content is durable; the link goes around the cache. */
// variants: clwb clflushopt
#include "../pm.h"

struct list {
  struct line head;
  struct line node;
};

int main(int argc, char **argv) {
  struct list *list = (struct list *)map_pool(argv[1]);
  STORE(list->node.word[0], 42); // expect: delayed-persist
  MOVNTI(list->head.word[0], sizeof(struct line));
  SFENCE();
  PERSIST(list->node);
  return 0;
}
