/* Each field has a line of its own. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct queue {
  uint64_t head __attribute__((aligned(64)));
  uint64_t tail __attribute__((aligned(64)));
};

int main(int argc, char **argv) {
  struct queue *queue = (struct queue *)map_pool(argv[1]);
  STORE(queue->head, 1);
  PERSIST(queue->head);
  STORE(queue->tail, 1);
  PERSIST(queue->tail);
  return 0;
}
