/* The flush is fenced before the critical section ends. */
// variants: clwb clflushopt nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *slot_) {
  struct line *slot = slot_;
  pthread_mutex_lock(&mutex);
  STORE(slot->word[0], 1);
  PERSIST(*slot);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, &pm[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
