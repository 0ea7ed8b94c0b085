/* Files whose length is no multiple of a page: what is stored beyond the end is not part of the file. */
#include "pm.h"

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char *one = pm_map(directory, "one", 5000), *tiny = pm_map(directory, "tiny", 1);
  memset(one + 4000, 1, 4000);
  *(volatile uint64_t *)(one + 4996) = noise(); /* half inside */
  tiny[0] = 2;
  tiny[1] = 3;
  int fd = pm_open(directory, "grown", 100);
  char *grown = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  grown[50] = 4;
  check(ftruncate(fd, 6000) == 0);
  grown[5999] = 5;
  char *offset = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  offset[0] = 6;
  offset[1903] = 7;
  return 0;
}
