/* The last flush is not fenced. It is of a value that was durable before. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 7);
  FLUSH(pm[0]);
  return 0;
}
