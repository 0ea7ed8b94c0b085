/* Persistent files are mapped, written, moved, cut and unmapped. */
#include "soak.h"

int main(int argc, char **argv) {
  soak_start(argc, argv);
  for (int round = 0; soak_on(); round++) {
    size_t length = (size_t)(round % 8 + 2) * 4096;
    int fd = soak_file(length * 2);
    char *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(map != MAP_FAILED);
    memset(map, round, length);
    map = mremap(map, length, length * 2, MREMAP_MAYMOVE);
    check(map != MAP_FAILED);
    map[length] = (char)round;
    check(mprotect(map, 4096, PROT_READ) == 0 && munmap(map + 4096, 4096) == 0);
    check(map[0] == (char)round && map[length] == (char)round);
    check(munmap(map, length * 2) == 0 && close(fd) == 0);
  }
  say("unmapped");
  return 0;
}
