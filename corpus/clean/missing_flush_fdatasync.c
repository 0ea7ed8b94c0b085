/* Durability by fdatasync on the file, next to a line that is flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  int fd = open(argv[1], O_RDWR);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[1], 2);
  return fd < 0 || fdatasync(fd) != 0;
}
