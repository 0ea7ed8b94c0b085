/* The stack grows on demand, also when a system call or a handler is the first to touch it. */
#include <sys/resource.h>
#include "check.h"

static volatile int ran;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  ran++;
}

__attribute__((noinline)) static int deep(int fd) {
  char large[3 << 20];
  check(read(fd, large, 4096) == 4096); /* the kernel touches the lowest page first */
  check(large[0] == 0 && large[4095] == 0);
  raise(SIGUSR1);
  large[(3 << 20) - 1] = 5;
  return large[(3 << 20) - 1] + large[100];
}

int main(void) {
  FILE *zero = fopen("/dev/zero", "r");
  struct rlimit limit;
  handle(SIGUSR1, handler, 0);
  check(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= 8 << 20);
  check(deep(fileno(zero)) == 5 && ran == 1);
  say("grew");
  return 0;
}
