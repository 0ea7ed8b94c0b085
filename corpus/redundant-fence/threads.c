/* The main thread fences once more for what its workers have made durable. */
// variants: clwb clflushopt nt
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
  pthread_t threads[2];
  STORE(pm[2].word[0], 2);
  PERSIST(pm[2]);
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, &pm[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  SFENCE(); // expect: redundant-fence
  return 0;
}
