/* fork inside a signal handler; both sides return from it. */
#include "check.h"

static volatile pid_t child = -1;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  child = fork();
}

int main(void) {
  handle(SIGUSR1, handler, 0);
  for (int i = 0; i < 20; i++) {
    raise(SIGUSR1);
    check(child >= 0);
    if (child == 0) _exit(i);
    check(exit_status(child) == i);
  }
  say("returned twice");
  return 0;
}
