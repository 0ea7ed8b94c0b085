/* A non-temporal store goes around the cache: there is nothing to flush. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOVNTI(pm[0].word[0], 1);
  FLUSH(pm[0]); // expect: flush-of-nt-store
  SFENCE();
  return 0;
}
