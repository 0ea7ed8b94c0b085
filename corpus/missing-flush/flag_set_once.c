/* A flag that is set by a locked instruction, and was never put back, is no lock: its flush is forgotten. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[1], 7);
  PERSIST(pm[0]);
  __sync_bool_compare_and_swap(&pm[0].word[0], 0, 1); // expect: missing-flush
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  return 0;
}
