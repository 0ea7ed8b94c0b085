/* Locked instructions are fences, too, but they are there for their own sake. */
// variants: clwb clflushopt nt
#include "../pm.h"

static uint64_t counter;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  LOCK_INC(counter);
  __atomic_exchange_n(&counter, 0, __ATOMIC_SEQ_CST);
  return 0;
}
