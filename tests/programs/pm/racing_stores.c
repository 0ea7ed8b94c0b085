/* Plain stores of all sizes by four threads to the same few lines, overlapping, aligned and not.
 *
 * @threaded
 */
#include "racing.h"

static char *map;

static void work(int number, uint64_t *random) {
  for (int i = 0; i < 5000; i++) {
    uint64_t value = next_random(random);
    char *at = map + 64 + value % 500;
    switch (value >> 60 & 3) {
      case 0: *(volatile uint8_t *)at = (uint8_t)(value >> 8); break;
      case 1: *(volatile uint16_t *)at = (uint16_t)(value >> 8); break;
      case 2: *(volatile uint32_t *)at = (uint32_t)(value >> 8); break;
      case 3: *(volatile uint64_t *)at = value; break;
    }
    if (i % 1000 == 0) map[number] = (char)i;
  }
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", 4096);
  race(4, work);
  return 0;
}
