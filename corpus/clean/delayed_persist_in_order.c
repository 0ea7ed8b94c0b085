/* The earlier store is made durable first, though the later one is already in the cache. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  STORE(pm[1].word[0], 2);
  PERSIST(pm[0]);
  PERSIST(pm[1]);
  return 0;
}
