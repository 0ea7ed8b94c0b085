/* A line gets a non-temporal store and then an ordinary one: the flush is for the latter. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOVNTI(pm[0].word[0], 1);
  SFENCE();
  STORE(pm[0].word[1], 2);
  PERSIST(pm[0]);
  return 0;
}
