/* A node is published before what it contains is durable. */
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
  STORE(pm[4].word[0], 7); // expect: persistency-race
  await_turn(0);
  pthread_mutex_lock(&mutex);
  STORE(pm[0].word[0], (uint64_t)&pm[4]); // expect: unpersisted-target
  PERSIST(pm[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  await_turn(2);
  PERSIST(pm[4]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
