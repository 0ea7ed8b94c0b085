/* Of two flushes only one waits for the fence: clflush does not. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOV(pm[0].word[0], 1);
  CLFLUSH(pm[0]);
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  return 0;
}
