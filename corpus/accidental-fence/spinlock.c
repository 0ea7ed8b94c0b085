/* A spinlock is released by an exchange, which needs no lock prefix to be a fence. */
// variants: clwb clflushopt nt
#include "../pm.h"

static int lock;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
    ;
  STORE(pm[0].word[0], 1); // expect[nt]: accidental-fence
  FLUSH(pm[0]);            // expect[clwb, clflushopt]: accidental-fence
  __atomic_exchange_n(&lock, 0, __ATOMIC_RELEASE);
  _exit(0);
}
