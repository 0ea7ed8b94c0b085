/* A word is overwritten only when its value is durable. */
// variants: clwb clflushopt clflush nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 2);
  PERSIST(pm[0]);
  return 0;
}
