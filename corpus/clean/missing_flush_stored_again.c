/* Every change is made durable. */
// variants: clwb clflushopt clflush nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t i = 1; i < 5; i++) {
    STORE(pm[0].word[0], i);
    PERSIST(pm[0]);
    STORE(pm[1].word[7], i);
    PERSIST(pm[1]);
  }
  return 0;
}
