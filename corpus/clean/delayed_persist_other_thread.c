/* Another thread's store gets durable in between; nobody said that it comes later. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot->word[0], 2);
  PERSIST(*slot);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread;
  STORE(pm[0].word[0], 1);
  pthread_create(&thread, NULL, work, &pm[1]);
  pthread_join(thread, NULL);
  PERSIST(pm[0]);
  return 0;
}
