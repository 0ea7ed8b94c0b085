/* Where the cache is durable, stores that go around it still wait for a fence. */
// check: --model eadr --pm {dir}/pool
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOV(pm[0].word[0], 1);
  MOVNTI(pm[1].word[0], 2); // expect: missing-fence
  _exit(0);
}
