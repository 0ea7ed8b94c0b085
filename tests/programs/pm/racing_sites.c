/* Threads meet store instructions for the first time, all at once: every site is met by four threads while it is new.
 *
 * @threaded
 */
#include "racing.h"

static char *map;

#define SITE(n) \
  *(volatile uint32_t *)(map + 64 + (n)) = (uint32_t)value * (n) + (uint32_t)number;
#define SITES8(n) SITE(n) SITE(n + 1) SITE(n + 2) SITE(n + 3) SITE(n + 4) SITE(n + 5) SITE(n + 6) SITE(n + 7)
#define SITES64(n) SITES8(n) SITES8(n + 8) SITES8(n + 16) SITES8(n + 24) SITES8(n + 32) SITES8(n + 40) SITES8(n + 48) SITES8(n + 56)

static void work(int number, uint64_t *random) {
  uint64_t value = next_random(random);
  for (int i = 0; i < 3; i++) {
    SITES64(0) SITES64(64) SITES64(128) SITES64(192)
    value += next_random(random);
  }
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", 4096);
  race(4, work);
  return 0;
}
