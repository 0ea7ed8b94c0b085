/* The mask in the ucontext is the interrupted one, and changing it changes the mask after return. */
#include <ucontext.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *machine = context;
  check(sigismember(&machine->uc_sigmask, SIGHUP) && !sigismember(&machine->uc_sigmask, SIGUSR1));
  sigdelset(&machine->uc_sigmask, SIGHUP);
  sigaddset(&machine->uc_sigmask, SIGWINCH);
}

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_SETMASK, &set, NULL);
  handle(SIGUSR1, handler, 0);
  raise(SIGUSR1);
  sigprocmask(SIG_BLOCK, NULL, &set);
  check(!sigismember(&set, SIGHUP) && sigismember(&set, SIGWINCH) && !sigismember(&set, SIGUSR1));
  say("changed");
  return 0;
}
