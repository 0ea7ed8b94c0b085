/* Each thread flushes what it has stored, whether or not another one is committing: no order of the threads loses a
 * store. */
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
  STORE(pm[0].word[0], 7);
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
