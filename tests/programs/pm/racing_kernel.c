/* The kernel writes lines, by read and by pwrite, that threads store to at the same time.
 *
 * @threaded
 */
#include "racing.h"

static char *map;
static int fd, zero;

static void work(int number, uint64_t *random) {
  char text[128];
  memset(text, 'a' + number, sizeof text);
  for (int i = 0; i < 500; i++) {
    uint64_t value = next_random(random);
    size_t at = value & 511, length = (value >> 20 & 63) + 1;
    switch (number) {
      case 0: check(pread(zero, map + at, length, 0) == (ssize_t)length); break;
      case 1: check(pwrite(fd, text, length, (off_t)at) == (ssize_t)length); break;
      default: *(volatile uint64_t *)(map + at) = value; break;
    }
  }
}

int main(int argc, char **argv) {
  fd = pm_open(directory_of(argc, argv), "file", 8192);
  zero = open("/dev/zero", O_RDONLY);
  map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED && zero >= 0);
  race(4, work);
  return 0;
}
