/* mremap grows, moves and shrinks mappings; stores go on in the new place. */
#include "pm.h"

int main(int argc, char **argv) {
  int rights = PROT_READ | PROT_WRITE, fd = pm_open(directory_of(argc, argv), "file", 4096);
  char *map = mmap(NULL, 4096, rights, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED);
  for (size_t pages = 1; pages < 256; pages *= 2) {
    memset(map + (pages - 1) * 4096 + 1000, (int)pages, 3000);
    map[pages * 17] = 'm';
    check(ftruncate(fd, (off_t)(pages * 2 * 4096)) == 0);
    map = mremap(map, pages * 4096, pages * 2 * 4096, MREMAP_MAYMOVE);
    check(map != MAP_FAILED);
    if (pages == 16) mmap(map + pages * 2 * 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* the next one must move */
  }
  check(mremap(map, 256 * 4096, 128 * 4096, 0) == map);
  memset(map + 127 * 4096, 9, 4096);
  char *target = mmap(NULL, 200 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *moved = mremap(map, 128 * 4096, 128 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, target + 4096);
  check(moved == target + 4096);
  for (int i = 0; i < 128 * 4096; i += 999) moved[i] = (char)i;
  char *both = mremap(moved, 0, 4096, MREMAP_MAYMOVE); /* old length 0: a second mapping of the same pages */
  check(both != MAP_FAILED && both != moved);
  both[5] = 55;
  moved[6] = 66;
  check(moved[5] == 55 && both[6] == 66);
  return 0;
}
