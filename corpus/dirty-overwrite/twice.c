/* A word is stored twice before it is flushed: the first value can never be relied on. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1); // expect: dirty-overwrite
  STORE(pm[0].word[0], 2);
  PERSIST(pm[0]);
  return 0;
}
