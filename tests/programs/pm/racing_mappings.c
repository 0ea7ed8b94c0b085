/* Four threads write the same bytes of a file through four different mappings of it.
 *
 * @threaded
 */
#include "racing.h"

static char *maps[4];

static void work(int number, uint64_t *random) {
  for (int i = 0; i < 3000; i++) {
    uint64_t value = next_random(random);
    char *at = maps[number] + (value & 255);
    if (i % 3 == 0) *(volatile uint64_t *)at = value;
    if (i % 3 == 1) __atomic_add_fetch((long *)(maps[number] + 1024), 1, __ATOMIC_SEQ_CST);
    if (i % 3 == 2) *(volatile uint16_t *)at = (uint16_t)(value >> 8);
  }
}

int main(int argc, char **argv) {
  int fd = pm_open(directory_of(argc, argv), "file", 8192);
  for (int i = 0; i < 4; i++) {
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED);
    maps[i] = map + 64;
  }
  race(4, work);
  check(*(long *)(maps[0] + 1024) == 4000);
  return 0;
}
