/* A private mapping of the pool: its pages are copies in ordinary memory. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  int fd = open(argv[1], O_RDWR);
  struct line *view = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (view == MAP_FAILED)
    return 1;
  STORE(view[0].word[1], 2);
  FLUSH(view[0]); // expect: flush-volatile
  _exit(0);
}
