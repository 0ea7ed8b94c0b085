/* Threads flush a shared variable that is not persistent. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static struct line shared;

static void *work(void *slot_) {
  struct line *slot = slot_;
  FLUSH(shared); // expect: flush-volatile
  FENCE();
  STORE(slot->word[0], 1);
  PERSIST(*slot);
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
