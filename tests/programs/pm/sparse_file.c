/* A sparse file of ten gigabytes, written here and there. */
#include "pm.h"

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 10UL << 30);
  for (int i = 0; i < 300; i++) {
    uint64_t offset = (noise() >> 8) % ((10UL << 30) - 100);
    memset(map + offset, i, 100);
  }
  map[0] = 'a';
  map[(10UL << 30) - 1] = 'z';
  return 0;
}
