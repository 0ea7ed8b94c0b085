/* A pool in several files, mapped side by side; stores, copies and flushes across their borders. */
#include "pm.h"

int main(int argc, char **argv) {
  enum { FILES = 8, SIZE = 3 * 4096 };
  const char *directory = directory_of(argc, argv);
  char *pool = mmap(NULL, FILES * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < FILES; i++) {
    char name[16];
    snprintf(name, sizeof name, "part%d", i);
    int fd = pm_open(directory, name, SIZE);
    check(mmap(pool + i * SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == pool + i * SIZE);
    close(fd);
  }
  for (int i = 1; i < FILES; i++) {
    *(volatile uint64_t *)(pool + i * SIZE - 3) = noise(); /* one store, two files */
    memset(pool + i * SIZE - 700, i, 1400);
    __asm__ volatile("movq %1, %%xmm0\nmovups %%xmm0, (%0)" ::"r"(pool + i * SIZE - 9), "r"(noise()) : "xmm0", "memory");
  }
  memmove(pool + 5000, pool + 9000, 50000);
  char *to = pool + 70000;
  long count = 20000;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x61) : "memory");
  return 0;
}
