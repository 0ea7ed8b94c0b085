/* Keeps its table in persistent memory and flushes almost nothing of it. With an argument more, everything. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 200

static void flush(volatile void *place) {
  __asm__ volatile("clflush %0" : "+m"(*(volatile char *)place));
  __asm__ volatile("sfence" ::: "memory");
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 65536) != 0)
    return 1;
  volatile uint64_t *table = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (table == MAP_FAILED)
    return 1;
  for (uint64_t request = 1; request <= 2 * SLOTS; request++) {
    volatile uint64_t *slot = &table[8 * (1 + request % SLOTS)];
    *slot = request;
    if (argc > 2)
      flush(slot);
  }
  table[0] = 1;
  flush(table);
  return 0;
}
