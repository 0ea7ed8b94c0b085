/* Non-temporal stores are fenced and not flushed. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOVNTI(pm[0].word[0], 1);
  SFENCE();
  MOVNTI(pm[0].word[1], 2);
  SFENCE();
  return 0;
}
