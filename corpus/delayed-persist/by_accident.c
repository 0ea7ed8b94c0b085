/* The flush of a word is forgotten; it gets durable only because its line is flushed later for another one. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1); // expect: delayed-persist
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  STORE(pm[0].word[1], 3);
  FLUSH(pm[0]); // expect: flush-covers-many
  FENCE();
  return 0;
}
