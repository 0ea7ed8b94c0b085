/* A file is unmapped, changed by others, mapped again, truncated and regrown. */
#include "pm.h"

int main(int argc, char **argv) {
  int rights = PROT_READ | PROT_WRITE, fd = pm_open(directory_of(argc, argv), "file", 8 * 4096);
  char *map = mmap(NULL, 8 * 4096, rights, MAP_SHARED, fd, 0);
  memset(map + 100, 1, 9000);
  check(munmap(map, 8 * 4096) == 0);
  check(pwrite(fd, "changed while unmapped", 22, 500) == 22 && ftruncate(fd, 6 * 4096) == 0);
  map = mmap(NULL, 6 * 4096, rights, MAP_SHARED, fd, 0);
  check(memcmp(map + 500, "changed", 7) == 0 && map[600] == 1);
  memset(map + 5 * 4096, 2, 4096);
  check(ftruncate(fd, 2 * 4096) == 0 && ftruncate(fd, 6 * 4096) == 0 && map[5 * 4096] == 0);
  memset(map + 3 * 4096, 3, 10);
  if (fork() == 0) { /* changed by a process that does not map it */
    check(munmap(map, 6 * 4096) == 0 && pwrite(fd, "by the child", 12, 4 * 4096) == 12);
    _exit(0);
  }
  wait(NULL);
  check(memcmp(map + 4 * 4096, "by the child", 12) == 0);
  memset(map + 200, 4, 10);
  return 0;
}
