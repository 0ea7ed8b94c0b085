/* Two children send signals as fast as they can while the program computes, allocates and calls the kernel.
 *
 * @build pie static
 */
#include "check.h"

static volatile sig_atomic_t seen;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  int saved = errno;
  getppid();
  seen++;
  errno = saved;
}

int main(void) {
  pid_t parent = getpid(), children[2];
  handle(SIGUSR1, handler, SA_RESTART);
  handle(SIGUSR2, handler, 0);
  for (int i = 0; i < 2; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      for (int n = 0; n < 3000; n++) kill(parent, i ? SIGUSR1 : SIGUSR2);
      _exit(0);
    }
  }
  unsigned long hash = 0;
  int rounds = 0;
  while (waitpid(-1, NULL, WNOHANG) >= 0 || errno == EINTR) {
    char *block = malloc((size_t)(rounds % 500 + 1));
    memset(block, rounds, (size_t)(rounds % 500 + 1));
    for (int i = 0; i < rounds % 500 + 1; i++) hash += (unsigned char)block[i];
    free(block);
    rounds++;
  }
  check(errno == ECHILD && seen > 0);
  unsigned long again = 0;
  for (int r = 0; r < rounds; r++) again += (unsigned long)(r % 500 + 1) * (unsigned char)r;
  check(again == hash);
  say("weathered");
  return 0;
}
