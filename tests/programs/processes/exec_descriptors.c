/* Descriptors go over exec unless close-on-exec; nothing else is open afterwards. */
#include <dirent.h>
#include <fcntl.h>
#include "check.h"

int main(int argc, char **argv) {
  if (argc > 1) {
    for (int fd = 0; fd < 100; fd++)
      if (fcntl(fd, F_GETFD) >= 0) printf("%d ", fd);
    printf("\n");
    DIR *list = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(list)) count++;
    printf("%d\n", count - 3);
    return 0;
  }
  check(close_range(3, ~0U, 0) == 0); /* what the caller left open */
  int keep = open("/dev/null", O_RDONLY), drop = open("/dev/null", O_RDONLY | O_CLOEXEC);
  check(dup2(keep, 77) == 77 && dup2(drop, 78) == 78 && fcntl(78, F_SETFD, FD_CLOEXEC) == 0);
  execl("/proc/self/exe", argv[0], "again", (char *)NULL);
  return 1;
}
