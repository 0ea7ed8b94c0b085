/* All flushes are in one helper, or with NESTED in a part of it. Two of its callers flush what is already flushed. */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void write_line(volatile uint64_t *place) {
  __asm__ volatile("clflush %0" : "+m"(*place)); /* in the part */
}

static void write_out(volatile uint64_t *place) {
#ifdef NESTED
  write_line(place);
#else
  __asm__ volatile("clflush %0" : "+m"(*place)); /* in the helper */
  (void)write_line;
#endif
  __asm__ volatile("sfence" ::: "memory");
}

static void put(volatile uint64_t *place, uint64_t value) {
  *place = value;
  write_out(place);
}

int main(int argc, char **argv) {
  int fd = open(argv[argc - 1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 65536) != 0)
    return 1;
  volatile uint64_t *pool = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  put(pool, 1);
  write_out(pool); /* first caller */
  put(pool + 8, 2);
  write_out(pool + 8); /* second caller */
  return 0;
}
