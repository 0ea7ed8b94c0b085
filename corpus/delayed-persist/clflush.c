/* As with a fence: clflush makes the later store durable at once, while the earlier one is still in the cache. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOV(pm[0].word[0], 1); // known-miss: delayed-persist only fences count, so that the lines of one flushed range are not reported separately
  MOV(pm[1].word[0], 2);
  CLFLUSH(pm[1]);
  CLFLUSH(pm[0]);
  return 0;
}
