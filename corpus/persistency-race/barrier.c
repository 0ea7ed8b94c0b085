/* A store is not durable when all threads have reached the barrier. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_barrier_t barrier;
static struct line *pm;

static void *reader(void *unused) {
  pthread_barrier_wait(&barrier);
  LOAD(pm[0].word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  STORE(pm[0].word[0], 7); // expect: persistency-race
  pthread_barrier_wait(&barrier);
  await_turn(1);
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  pthread_barrier_init(&barrier, NULL, 2);
  run_threads(reader, writer);
  return argc - 2;
}
