/* Threads keep their partial sums next to the data, in lines that are never flushed. */
// variants: clwb clflushopt clflush nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  for (uint64_t i = 1; i < 10; i++)
    MOV(slot[1].word[0], slot[1].word[0] + i); // expect: transient-data
  STORE(slot[0].word[0], slot[1].word[0]);
  PERSIST(slot[0]);
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, &pm[i * 2]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
