/* SA_NODEFER lets a handler interrupt itself; SA_RESETHAND gives the default back after one use. */
#include "check.h"

static volatile int depth, deepest;

static void deeper(int signal, siginfo_t *info, void *context) {
  (void)info, (void)context;
  if (++depth > deepest) deepest = depth;
  if (depth < 5) raise(signal);
  depth--;
}

static void once(int signal, siginfo_t *info, void *context) {
  (void)info, (void)context;
  struct sigaction now;
  check(sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
}

int main(void) {
  handle(SIGUSR1, deeper, SA_NODEFER);
  raise(SIGUSR1);
  check(deepest == 5);
  handle(SIGTERM, once, SA_RESETHAND);
  raise(SIGTERM);
  pid_t child = fork();
  if (child == 0) {
    raise(SIGTERM);
    _exit(0);
  }
  check(death_signal(child) == SIGTERM);
  say("once");
  return 0;
}
