/* SS_AUTODISARM takes the alternate stack away while its handler runs, and gives it back. */
#include "check.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  stack_t now;
  check(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE);
}

int main(void) {
  stack_t new = {.ss_sp = malloc(65536), .ss_size = 65536, .ss_flags = (int)SS_AUTODISARM}, now;
  check(sigaltstack(&new, NULL) == 0);
  handle(SIGUSR1, handler, SA_ONSTACK);
  raise(SIGUSR1);
  check(sigaltstack(NULL, &now) == 0 && now.ss_sp == new.ss_sp && now.ss_flags == (int)SS_AUTODISARM);
  say("disarmed and armed again");
  return 0;
}
