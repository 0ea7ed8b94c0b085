/* A shared count of changes orders them. */
// variants: clwb clflushopt nt
#include "../pm.h"
#include <atomic>

static std::atomic<uint64_t> changes;

int main(int argc, char **argv) {
  line *pm = map_pool(argv[1]);
  for (int i = 1; i < 4; i++) {
    STORE(pm[0].word[0], i); // expect[nt]: accidental-fence
    FLUSH(pm[0]);            // expect[clwb, clflushopt]: accidental-fence
    changes.fetch_add(1);
  }
  _exit(0);
}
