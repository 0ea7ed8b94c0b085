/* The kernel refuses bad pointers with EFAULT instead of a signal, and partial buffers give partial counts.
 *
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "check.h"

int main(void) {
  int ends[2], zero = open("/dev/zero", O_RDONLY);
  struct stat status;
  char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(mprotect(pages + 4096, 4096, PROT_NONE) == 0 && pipe(ends) == 0);
  check(write(1, (char *)8, 5) == -1 && errno == EFAULT);
  check(read(zero, pages + 4096, 5) == -1 && errno == EFAULT);
  check(read(zero, pages + 4000, 200) == 96);
  check(open((char *)8, O_RDONLY) == -1 && errno == EFAULT);
  check(stat("/", (struct stat *)8) == -1 && errno == EFAULT && stat("/", &status) == 0);
  check(mprotect(pages, 4096, PROT_READ) == 0);
  check(read(zero, pages, 10) == -1 && errno == EFAULT);
  check(pipe((int *)pages) == -1 && errno == EFAULT);
  check(syscall(SYS_rt_sigaction, SIGUSR1, 8, 0, 8) == -1 && errno == EFAULT);
  say("refused");
  return 0;
}
