/* A spinlock is released by an exchange, which needs no lock prefix to be a fence. */
// variants: clwb clflushopt nt
#include "../pm.h"

static uint64_t lock;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  XCHG(lock, 1);
  STORE(pm[0].word[0], 1); // expect[nt]: accidental-fence
  FLUSH(pm[0]);            // expect[clwb, clflushopt]: accidental-fence
  XCHG(lock, 0);
  _exit(0);
}
