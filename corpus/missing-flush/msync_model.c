/* A page is changed after its msync, another one is never synced. */
// check: --model msync
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  if (msync(pm, 4096, MS_SYNC) != 0)
    return 1;
  STORE(pm[1].word[0], 2);  // expect: missing-flush
  STORE(pm[64].word[0], 3); // expect: transient-data
  return 0;
}
