/* A flush and a non-temporal store wait for the same fence. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  MOVNTI(pm[1].word[0], 2);
  SFENCE(); // expect: fence-orders-many
  return 0;
}
