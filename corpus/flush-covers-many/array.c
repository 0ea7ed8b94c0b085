/* A loop fills a line, one flush follows. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (int line = 0; line < 3; line++) {
    for (int i = 0; i < 8; i++)
      STORE(pm[line].word[i], i + 1);
    FLUSH(pm[line]); // expect: flush-covers-many
    FENCE();
  }
  return 0;
}
