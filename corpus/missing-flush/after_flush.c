/* A word is stored between the flush of its line and the fence: the flush does not cover it. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  STORE(pm[0].word[1], 2); // expect: missing-flush
  FENCE();
  return 0;
}
