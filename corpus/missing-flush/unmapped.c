/* The pool is unmapped while a store waits to be flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[1], 2); // expect: missing-flush
  return munmap(pm, POOL_SIZE);
}
