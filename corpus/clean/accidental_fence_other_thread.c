/* One thread makes a node durable and gives it away with an unlock; the other links it. */
// variants: clwb clflushopt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static uint64_t lock;
static struct line *pm, *node;

static void *link_node(void *unused) {
  XCHG(lock, 1);
  STORE(pm[0].word[0], (uint64_t)node);
  PERSIST(pm[0]);
  XCHG(lock, 0);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  XCHG(lock, 1);
  node = &pm[8];
  STORE(node->word[0], 7);
  PERSIST(*node);
  XCHG(lock, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, link_node, NULL);
  pthread_join(thread, NULL);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  return 0;
}
