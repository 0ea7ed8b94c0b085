/* A line is flushed that nothing was ever stored to. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  PERSIST(pm[1]); // expect: redundant-flush
  return 0;
}
