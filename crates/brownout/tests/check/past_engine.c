/* Changes its pool in a way that is recorded or in one that is not: `past_engine POOL HOW`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

static void persist(volatile uint64_t *word) {
  __asm__ volatile("clflush %0\nsfence" : "+m"(*word)::"memory");
}

static int is(const char *how, const char *name) { return strcmp(how, name) == 0; }

int main(int argc, char **argv) {
  const char *path = argv[1], *how = argv[2];
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (argc < 3 || fd < 0 || ftruncate(fd, SIZE) != 0)
    return 1;
  uint64_t *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    return 1;
  pool[0] = 1;
  persist(pool);
  uint64_t value = 2;
  uint64_t *at = pool + 0x2000 / 8;
  if (is(how, "memory")) {
    int memory = open("/proc/self/mem", O_RDWR);
    return pwrite(memory, &value, 8, (off_t)(uintptr_t)at) != 8;
  }
  if (is(how, "process")) {
    struct iovec from = {&value, 8}, to = {at, 8};
    return process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 8;
  }
  if (is(how, "file"))
    return pwrite(fd, &value, 8, 0x2000) != 8 || fsync(fd) != 0;
  if (is(how, "shorter"))
    return munmap(pool, SIZE) || ftruncate(fd, 100) != 0;
  if (is(how, "unlinked"))
    return unlink(path);
  if (is(how, "replaced")) {
    char other[4096];
    snprintf(other, sizeof other, "%s.new", path);
    int replacing = open(other, O_RDWR | O_CREAT, 0600);
    return write(replacing, &value, 8) != 8 || rename(other, path);
  }
  return 0;
}
