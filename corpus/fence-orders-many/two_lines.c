/* Two lines are on their way when the fence comes: either may arrive first. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  STORE(pm[1].word[0], 2);
  FLUSH(pm[1]);
  FENCE(); // expect: fence-orders-many
  return 0;
}
