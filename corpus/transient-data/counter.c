/* A counter that nobody needs after a crash lies in persistent memory. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t i = 1; i <= 10; i++) {
    STORE(pm[0].word[0], i);
    PERSIST(pm[0]);
    STORE(pm[1].word[0], pm[1].word[0] + 1); // expect: transient-data
  }
  return 0;
}
