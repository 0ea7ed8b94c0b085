/* A thread overwrites what another has made durable. */
// variants: clwb clflushopt clflush nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot->word[0], 1);
  PERSIST(*slot);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, pm);
    pthread_join(thread, NULL);
  }
  STORE(pm[0].word[0], 2);
  PERSIST(pm[0]);
  return 0;
}
