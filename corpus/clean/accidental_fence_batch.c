/* Records are flushed in a batch with one fence. That locks are taken in between does not matter: the count is stored last. */
// variants: clwb clflushopt
#include "../pm.h"

static uint64_t allocations;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (int batch = 0; batch < 4; batch++) {
    for (int i = 0; i < 4; i++) {
      struct line *record = &pm[1 + 4 * batch + i];
      STORE(record->word[0], i + 1);
      FLUSH(*record);
      LOCK_INC(allocations);
    }
    FENCE();
    STORE(pm[0].word[0], batch + 1);
    PERSIST(pm[0]);
  }
  return 0;
}
