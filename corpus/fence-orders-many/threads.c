/* Each thread has two lines on their way when it fences. */
// variants: clwb clflushopt nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot[0].word[0], 1);
  FLUSH(slot[0]);
  STORE(slot[1].word[0], 2);
  FLUSH(slot[1]);
  FENCE(); // expect: fence-orders-many
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
