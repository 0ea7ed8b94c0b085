/* Two threads each forget to flush their word of one line: a flush in one would not persist what the other stores later. */
// variants: clwb clflushopt clflush
// build: -pthread
// causes: 2
#include "../pm.h"
#include <pthread.h>

static int turn;

static void *work(void *slot_) {
  struct line *slot = slot_;
  if (turn == 0)
    STORE(slot->word[0], 2); // expect: missing-flush
  else
    STORE(slot->word[1], 2); // expect: missing-flush
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  for (turn = 0; turn < 2; turn++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, &pm[0]);
    pthread_join(thread, NULL);
  }
  return 0;
}
