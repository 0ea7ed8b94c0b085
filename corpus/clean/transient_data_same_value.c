/* The line is only ever written past the cache. A later store to it changes nothing. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOVNTI(pm[0].word[0], 7);
  SFENCE();
  STORE(pm[0].word[0], 7);
  return 0;
}
