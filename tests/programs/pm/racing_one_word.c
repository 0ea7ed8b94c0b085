/* Eight threads store to one word, the worst case for the order of values.
 *
 * @threaded
 */
#include "racing.h"

static char *map;

static void work(int number, uint64_t *random) {
  (void)random;
  for (long i = 0; i < 3000; i++) *(volatile long *)(map + 8) = i * 16 + number;
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", 4096);
  race(8, work);
  return 0;
}
