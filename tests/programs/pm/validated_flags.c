/* Mappings whose flags the kernel validates, as libraries make them for DAX: refused with MAP_SYNC where there is none, granted
 * without, at a hint, anywhere, and in place of another mapping. */
#include <linux/mman.h>
#include "pm.h"

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  int fd = pm_open(directory, "file", 8192), other = pm_open(directory, "other", 8192);
  int rights = PROT_READ | PROT_WRITE;
  char *hint = (char *)0x7ea000000000;
  check(mmap(hint, 8192, rights, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0) == MAP_FAILED && errno == EOPNOTSUPP);
  char *there = mmap(hint, 8192, rights, MAP_SHARED_VALIDATE, fd, 0);
  check(there == hint);
  memset(there, 1, 5000);
  char *anywhere = mmap(NULL, 4096, rights, MAP_SHARED_VALIDATE | MAP_POPULATE, other, 4096);
  check(anywhere != MAP_FAILED);
  memset(anywhere, 2, 100);
  check(mmap(there + 4096, 4096, rights, MAP_SHARED_VALIDATE | MAP_FIXED, other, 0) == there + 4096);
  *(volatile uint64_t *)(there + 4090) = noise();
  check(munmap(there, 8192) == 0);
  char *again = mmap(hint, 4096, rights, MAP_SHARED, fd, 4096);
  check(again == hint);
  again[0] = 3;
  return 0;
}
