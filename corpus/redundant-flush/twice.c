/* A line is made durable twice for one store. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  PERSIST(pm[0]); // expect: redundant-flush
  return 0;
}
