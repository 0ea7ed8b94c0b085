/* Lines are flushed in a loop: one fence after it suffices. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (int i = 0; i < 8; i++) {
    STORE(pm[i].word[0], 1);
    FLUSH(pm[i]);
  }
  // repair: FENCE();
  return 0;
}
