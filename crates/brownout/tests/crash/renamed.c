/* Stores two words in the wrong order to a pool whose name changes before that: `renamed POOL HOW`. `renamed POOL` is
 * the recovery. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct pool {
  uint64_t first[8], second[8];
};

static struct pool *map(int fd) {
  if (fd < 0 || ftruncate(fd, 4096) != 0)
    exit(1);
  struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pool == MAP_FAILED)
    exit(1);
  return pool;
}

static void set(uint64_t *word) {
  *(volatile uint64_t *)word = 1;
  __asm__ volatile("clflush %0\nsfence" : "+m"(*word)::"memory");
}

/* Nothing is stored or flushed between the two. */
static int rename_twice(const char *from, const char *to) {
  char between[4096];
  snprintf(between, sizeof between, "%s.between", to);
  return rename(from, between) || rename(between, to);
}

static int is(const char *how, const char *name) { return strcmp(how, name) == 0; }

int main(int argc, char **argv) {
  const char *path = argv[1];
  if (argc < 3) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
      return 0;
    struct pool *pool = map(fd);
    return pool->second[0] && !pool->first[0];
  }
  const char *how = argv[2];
  char other[4096], link_path[64];
  snprintf(other, sizeof other, is(how, "directory") ? "old/pool" : "%s.tmp", path);
  if (is(how, "directory") && mkdir("old", 0777) != 0)
    return 1;
  if (is(how, "replace") && close(open(path, O_RDWR | O_CREAT, 0600)) != 0)
    return 1;
  int fd = is(how, "nameless") ? open(".", O_TMPFILE | O_RDWR, 0600) : open(other, O_RDWR | O_CREAT, 0600);
  /* Not every file system has files without a name. */
  if (fd < 0 && is(how, "nameless"))
    return 77;
  if (is(how, "earlier-link") && link(other, path) != 0)
    return 1;
  struct pool *pool = map(fd);
  snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", fd);
  int failed = is(how, "directory")  ? rename("old", "new")
               : is(how, "nameless") ? linkat(AT_FDCWD, link_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW)
               : is(how, "link")     ? link(other, path)
               : is(how, "earlier-link") ? 0
               : is(how, "moved-link") ? link(other, path) || unlink(other)
               : is(how, "twice")    ? rename_twice(other, path)
                                     : rename(other, path);
  if (failed)
    return 1;
  set(pool->second);
  set(pool->first);
  return 0;
}
