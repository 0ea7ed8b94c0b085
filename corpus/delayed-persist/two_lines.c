/* The later store is durable before the earlier one is even flushed. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1); // expect: delayed-persist
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  PERSIST(pm[0]);
  return 0;
}
