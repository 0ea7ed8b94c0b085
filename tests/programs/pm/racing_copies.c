/* memcpy, memset and memmove of many sizes by four threads over the same pages.
 *
 * @threaded
 */
#include "racing.h"

static char *map;

static void work(int number, uint64_t *random) {
  char source[2048];
  for (int i = 0; i < 2048; i++) source[i] = (char)(next_random(random) + (uint64_t)number);
  for (int i = 0; i < 300; i++) {
    uint64_t value = next_random(random);
    size_t length = value % 1500 + 1, at = value >> 20 & 4095, from = value >> 40 & 511;
    if (i % 4 == 0) memcpy(map + at, source + from, length);
    if (i % 4 == 1) memset(map + at, (int)value, length);
    if (i % 4 == 2) memmove(map + at, map + (value >> 33 & 4095), length);
    if (i % 4 == 3) memcpy(source + from, map + at, length);
  }
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", 3 * 4096);
  race(4, work);
  return 0;
}
