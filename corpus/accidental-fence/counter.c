/* What orders the flush is an atomic counter that has nothing to do with it. */
// variants: clwb clflushopt nt
#include "../pm.h"

static uint64_t operations;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1); // expect[nt]: accidental-fence
  FLUSH(pm[0]);            // expect[clwb, clflushopt]: accidental-fence
  LOCK_INC(operations);
  _exit(0);
}
