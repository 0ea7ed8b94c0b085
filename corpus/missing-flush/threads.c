/* Each thread makes its slot durable and then marks it as closed without a flush. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  for (uint64_t i = 1; i < 10; i++) {
    STORE(slot->word[0], i);
    PERSIST(*slot);
  }
  STORE(slot->word[1], 1); // expect: missing-flush
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
