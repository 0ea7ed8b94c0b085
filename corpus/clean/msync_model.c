/* Under the model of msync a page is durable when it is synced, flushed or not. */
// check: --model msync
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  STORE(pm[1].word[0], 2);
  return msync(pm, 4096, MS_SYNC);
}
