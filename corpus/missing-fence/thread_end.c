/* A thread returns with its last flush on its way; the locks that the C library takes then are no fences. */
// variants: clwb clflushopt nt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot->word[0], 1); // expect[nt]: missing-fence
  FLUSH(*slot);            // expect[clwb, clflushopt]: missing-fence
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, work, pm);
  pthread_join(thread, NULL);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  return 0;
}
