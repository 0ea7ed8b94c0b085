/* A node is initialised without a lock and durable before it is published with one. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  pthread_mutex_lock(&mutex);
  struct line *node = (struct line *)LOAD(pm[0].word[0]);
  LOAD(node->word[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  STORE(pm[4].word[0], 7);
  PERSIST(pm[4]);
  await_turn(0);
  pthread_mutex_lock(&mutex);
  STORE(pm[0].word[0], (uint64_t)&pm[4]);
  PERSIST(pm[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
