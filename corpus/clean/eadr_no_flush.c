/* Where the cache itself is durable, a store needs neither flush nor fence. */
// check: --model eadr --pm {dir}/pool
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  STORE(pm[1].word[0], 2);
  STORE(pm[0].word[0], 3);
  return 0;
}
