/* The pool replaces a part of ordinary memory: from then on that part is persistent. */
// variants: clwb clflushopt clflush
#include "../pm.h"

static struct line area[POOL_LINES] __attribute__((aligned(4096)));

int main(int argc, char **argv) {
  map_pool(argv[1]);
  int fd = open(argv[1], O_RDWR);
  if (mmap(area, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != area)
    return 1;
  STORE(area[2].word[0], 1);
  PERSIST(area[2]);
  return 0;
}
