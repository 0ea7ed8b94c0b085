/* Shared and private file mappings, two of one file, over fork, with truncation, msync and unlinked files. */
#include <fcntl.h>
#include "check.h"

int main(void) {
  int fd = open("file", O_RDWR | O_CREAT, 0600);
  check(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
  char *one = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char *two = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  char *mine = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  check(one != MAP_FAILED && two != MAP_FAILED && mine != MAP_FAILED);
  strcpy(one + 4096, "through one");
  check(strcmp(two, "through one") == 0 && strcmp(mine + 4096, "through one") == 0);
  strcpy(mine + 4096, "mine");
  check(strcmp(two, "through one") == 0);
  if (fork() == 0) {
    strcpy(two, "from the child");
    _exit(0);
  }
  wait(NULL);
  check(strcmp(one + 4096, "from the child") == 0 && strcmp(mine + 4096, "mine") == 0);
  char text[32];
  check(pread(fd, text, 15, 4096) == 15 && strcmp(text, "from the child") == 0);
  check(pwrite(fd, "by descriptor", 14, 4096) == 14 && strcmp(two, "by descriptor") == 0);
  check(msync(one, 3 * 4096, MS_SYNC) == 0 && msync(two + 1, 10, MS_SYNC) == -1 && errno == EINVAL);
  check(mremap(one, 3 * 4096, 4096, 0) == one);
  int other = open("gone", O_RDWR | O_CREAT, 0600);
  check(ftruncate(other, 4096) == 0);
  char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
  close(other);
  unlink("gone");
  gone[7] = 7;
  int only_read = open("file", O_RDONLY);
  check(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, only_read, 0) == MAP_FAILED && errno == EACCES);
  char *view = mmap(NULL, 4096, PROT_READ, MAP_SHARED, only_read, 4096);
  check(strcmp(view, "by descriptor") == 0 && mprotect(view, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
  say("shared");
  return 0;
}
