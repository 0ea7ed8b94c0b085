/* Directories, links, renames, stat, times, locks, attributes and vectored input and output. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include "check.h"

int main(void) {
  check(mkdir("d", 0755) == 0 && chdir("d") == 0);
  int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640);
  struct iovec parts[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
  check(fd >= 0 && writev(fd, parts, 3) == 13 && pwrite(fd, "TWO", 3, 4) == 3);
  char text[32] = {0};
  check(pread(fd, text, 31, 0) == 13 && strcmp(text, "one TWO three") == 0);
  check(link("a", "b") == 0 && symlink("b", "c") == 0 && rename("a", "z") == 0 && access("a", F_OK) == -1);
  struct stat status;
  struct timespec times[2] = {{1000, 5}, {2000, 7}};
  check(futimens(fd, times) == 0 && stat("c", &status) == 0 && status.st_nlink == 2 && status.st_mtim.tv_nsec == 7);
  check(fallocate(fd, 0, 0, 8192) == 0 && ftruncate(fd, 5) == 0 && lseek(fd, 0, SEEK_END) == 5);
  check(flock(fd, LOCK_EX | LOCK_NB) == 0);
  int other = open("z", O_RDONLY);
  check(flock(other, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
  DIR *list = opendir(".");
  int names = 0;
  while (readdir(list)) names++;
  check(names == 5);
  check(getcwd(text, 4) == NULL && errno == ERANGE);
  check(umask(077) == 022 || 1);
  check(copy_file_range(fd, &(off_t){0}, open("copy", O_CREAT | O_RDWR, 0600), NULL, 5, 0) == 5);
  check(unlink("b") == 0 && openat(AT_FDCWD, "b", O_RDONLY) == -1 && errno == ENOENT);
  say("filed");
  return 0;
}
