/* One thread stores non-temporally; another flushes the line, which does not help the first. */
// variants: clwb clflushopt clflush
// build: -pthread -Wl,-z,now
#include "../pm.h"
#include <pthread.h>
#include <sched.h>

static volatile int stored, flushed;

static void *flush(void *slot_) {
  struct line *slot = slot_;
  while (!stored)
    sched_yield();
  FLUSH(*slot); // expect: flush-of-nt-store
  FENCE();
  flushed = 1;
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, flush, pm);
  MOVNTI(pm[0].word[0], 1);
  stored = 1;
  while (!flushed)
    sched_yield();
  SFENCE();
  pthread_join(thread, NULL);
  return 0;
}
