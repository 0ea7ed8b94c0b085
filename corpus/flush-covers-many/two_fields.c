/* Two fields happen to share a line, so that one flush is enough: for this layout. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  STORE(pm[0].word[1], 2);
  FLUSH(pm[0]); // expect: flush-covers-many
  FENCE();
  return 0;
}
