/* A locked instruction on persistent memory publishes what was flushed before: it is meant as the fence. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  LOCK_INC(pm[1].word[0]);
  CLWB(pm[1]);
  SFENCE();
  return 0;
}
