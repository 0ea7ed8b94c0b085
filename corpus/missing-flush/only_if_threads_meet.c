/* A thread leaves its flush to one that is committing, which has no knowledge of its store. The threads have to meet for that: most
 * runs flush every store. */
// build: -pthread
// check: --schedules 8
#include "../pm.h"
#include <pthread.h>

static struct line *pm;
static volatile int committing;

static void *commit(void *unused) {
  committing = 1;
  for (int i = 1; i < 30; i++) {
    STORE(pm[i].word[0], i);
    PERSIST(pm[i]);
  }
  committing = 0;
  return unused;
}

static void *put(void *unused) {
  STORE(pm[0].word[0], 7); // expect: missing-flush
  if (!committing)
    PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pthread_t threads[2];
  pm = map_pool(argv[1]);
  STORE(pm[0].word[1], 1);
  PERSIST(pm[0]);
  pthread_create(&threads[0], NULL, commit, NULL);
  pthread_create(&threads[1], NULL, put, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return argc - 2;
}
