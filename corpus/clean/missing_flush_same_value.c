/* A state is set again each time, though it is durable already: losing that loses nothing. */
// variants: clwb clflushopt clflush
#include "../pm.h"

enum { READY = 7 };

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], READY);
  PERSIST(pm[0]);
  for (uint64_t i = 1; i < 5; i++) {
    STORE(pm[1].word[0], i);
    PERSIST(pm[1]);
    STORE(pm[0].word[0], READY);
  }
  return 0;
}
