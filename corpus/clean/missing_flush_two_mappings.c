/* The pool is mapped twice; what is stored at one address is flushed at the other: it is the same line. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]), *again = map_pool(argv[1]);
  STORE(pm[3].word[0], 1);
  PERSIST(again[3]);
  STORE(again[4].word[0], 2);
  PERSIST(pm[4]);
  return 0;
}
