/* A standard signal sent many times while blocked is delivered once, and sigpending shows it. */
#include "check.h"

static volatile int seen;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  seen++;
}

int main(void) {
  sigset_t set, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  handle(SIGUSR1, handler, 0);
  sigprocmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < 10; i++) kill(getpid(), SIGUSR1);
  check(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2));
  check(seen == 0);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  check(seen == 1);
  sigpending(&pending);
  check(!sigismember(&pending, SIGUSR1));
  signal(SIGUSR1, SIG_IGN);
  raise(SIGUSR1);
  check(seen == 1);
  say("once");
  return 0;
}
