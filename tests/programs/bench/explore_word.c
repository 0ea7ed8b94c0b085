/* A recovery of about a millisecond, to explore: it reads the first word of the pool, which decides what it prints.
 *
 * @flags -O2
 */
#include <fcntl.h>
#include "check.h"

enum { SIZE = 1 << 20, WORK = 400000 };

int main(int argc, char **argv) {
  check(argc > 1);
  int fd = open(argv[1], O_RDWR);
  volatile uint64_t *pool = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(fd >= 0 && pool != MAP_FAILED);
  uint64_t x = pool[0];
  for (int i = 0; i < WORK; i++) x = (x ^ x >> 33) * 0xff51afd7ed558ccd + pool[512 + i % 4096];
  printf("%lu\n", x);
  return 0;
}
