/* Every flush has something to write back: another word of the line, or the same word again. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[1], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[1], 1); /* the same value: still a store */
  PERSIST(pm[0]);
  return 0;
}
