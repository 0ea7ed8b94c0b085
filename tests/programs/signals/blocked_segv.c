/* A fault whose signal is blocked, or ignored, kills at once. */
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  say("never");
}

int main(void) {
  pid_t child = fork();
  if (child == 0) {
    sigset_t set;
    sigfillset(&set);
    handle(SIGSEGV, handler, 0);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *(volatile int *)8 = 1;
    _exit(0);
  }
  check(death_signal(child) == SIGSEGV);
  child = fork();
  if (child == 0) {
    signal(SIGFPE, SIG_IGN);
    volatile int zero = 0, one = 1;
    _exit(one / zero);
  }
  check(death_signal(child) == SIGFPE);
  child = fork();
  if (child == 0) {
    handle(SIGSEGV, (void (*)(int, siginfo_t *, void *))8, 0); /* the handler itself is nowhere */
    *(volatile int *)8 = 1;
    _exit(0);
  }
  check(death_signal(child) == SIGSEGV);
  say("killed three times");
  return 0;
}
