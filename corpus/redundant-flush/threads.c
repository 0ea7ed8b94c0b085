/* A thread flushes what the thread that stored it has already made durable. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  PERSIST(*slot); // expect: redundant-flush
  STORE(slot->word[1], 2);
  PERSIST(*slot);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  pthread_t thread;
  pthread_create(&thread, NULL, work, pm);
  pthread_join(thread, NULL);
  return 0;
}
