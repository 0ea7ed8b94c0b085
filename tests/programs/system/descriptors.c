/* The program owns all descriptor numbers: lowest free first, dup2 anywhere, close_range, limits. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "check.h"

static int count_open(void) {
  int open_now = 0;
  for (int fd = 0; fd < 4096; fd++) open_now += fcntl(fd, F_GETFD) >= 0;
  return open_now;
}

int main(void) {
  check(syscall(SYS_close_range, 3, ~0U, 0) == 0); /* what the caller left open */
  check(count_open() == 3);
  check(open("/dev/null", O_RDONLY) == 3 && dup(0) == 4 && close(3) == 0 && dup(1) == 3);
  struct rlimit limit = {0, 0};
  check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  int high = limit.rlim_cur > 60000 ? 60000 : (int)limit.rlim_cur - 1;
  check(dup2(1, high) == high && write(high, "through a high descriptor\n", 26) == 26);
  check(fcntl(0, F_DUPFD, 1000) == 1000 && fcntl(1000, F_GETFD) == 0);
  for (int fd = 3; fd < 2000; fd++) close(fd);
  check(syscall(SYS_close_range, 3, ~0U, 0) == 0 && fcntl(high, F_GETFD) == -1);
  check(count_open() == 3);
  struct rlimit small = {32, limit.rlim_max};
  check(setrlimit(RLIMIT_NOFILE, &small) == 0);
  int last = -1, fd;
  while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd;
  check(errno == EMFILE && last == 31);
  check(syscall(SYS_close_range, 3, ~0U, 0) == 0);
  check(close(0) == 0 && open("/dev/null", O_RDONLY) == 0);
  pid_t child = fork();
  if (child == 0) {
    for (fd = 0; fd < 1024; fd++) close(fd);
    _exit(44);
  }
  check(exit_status(child) == 44);
  say("all its own");
  return 0;
}
