/* A log made durable with msync and fsync only, as databases on ordinary files do. */
#include "pm.h"

int main(int argc, char **argv) {
  int fd = pm_open(directory_of(argc, argv), "file", 64 * 4096);
  char *map = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED);
  for (int i = 0; i < 200; i++) {
    size_t at = 4096 + (size_t)i * 1000;
    snprintf(map + at, 900, "record %d %0*d", i, i % 500 + 1, i);
    check(msync((void *)((uintptr_t)(map + at) & ~4095UL), 8192, MS_SYNC) == 0);
    *(volatile uint64_t *)map = (uint64_t)i;
    check(i % 3 ? fdatasync(fd) == 0 : fsync(fd) == 0);
  }
  return 0;
}
