/* The state goes back to what was durable, but a crash may leave the other one: neither change is flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

enum { READY = 7, BUSY = 8 };

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], READY);
  PERSIST(pm[0]);
  for (uint64_t i = 1; i < 5; i++) {
    STORE(pm[0].word[0], BUSY); // expect: missing-flush
    STORE(pm[1].word[0], i);
    PERSIST(pm[1]);
    STORE(pm[0].word[0], READY); // expect: missing-flush
  }
  return 0;
}
