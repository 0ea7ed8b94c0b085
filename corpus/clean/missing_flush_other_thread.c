/* A thread stores, and another makes that durable for it. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot->word[0], 1);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, work, pm);
  pthread_join(thread, NULL);
  PERSIST(pm[0]);
  return 0;
}
