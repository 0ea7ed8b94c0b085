/* A locked instruction happens to come between flush and fence: the fence is there, and it is needed by design. */
// variants: clwb clflushopt nt
#include "../pm.h"

static uint64_t operations;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  LOCK_INC(operations);
  FENCE();
  return 0;
}
