/* One thread stores and flushes, another fences: a fence waits for the flushes of its own thread only. */
// variants: clwb clflushopt nt
// build: -pthread -Wl,-z,now
#include "../pm.h"
#include <pthread.h>
#include <sched.h>

static volatile int flushed;

static void *work(void *slot_) {
  struct line *slot = slot_;
  STORE(slot->word[0], 1); // expect[nt]: missing-fence
  FLUSH(*slot);            // expect[clwb, clflushopt]: missing-fence
  flushed = 1;
  while (flushed)
    sched_yield();
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread;
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  pthread_create(&thread, NULL, work, pm);
  while (!flushed)
    sched_yield();
  SFENCE(); // expect: redundant-fence
  _exit(0);
}
