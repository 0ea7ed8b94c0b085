/* A handler with SA_ONSTACK runs on the alternate stack, and sees it as such.
 *
 * @build pie static musl
 */
#include "check.h"

static char *stack;
static volatile int runs;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  char local;
  stack_t now;
  check(&local >= stack && &local < stack + 65536);
  check(sigaltstack(NULL, &now) == 0);
  check(now.ss_sp == stack && now.ss_size == 65536 && now.ss_flags == SS_ONSTACK);
  now.ss_flags = 0;
  check(sigaltstack(&now, NULL) == -1 && errno == EPERM);
  if (runs++ == 0) raise(SIGUSR2);
}

int main(void) {
  stack = malloc(65536);
  stack_t new = {.ss_sp = stack, .ss_size = 65536}, old;
  check(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
  check(sigaltstack(&new, NULL) == 0);
  handle(SIGUSR1, handler, SA_ONSTACK);
  handle(SIGUSR2, handler, SA_ONSTACK);
  raise(SIGUSR1);
  check(runs == 2);
  check(sigaltstack(NULL, &old) == 0 && old.ss_sp == stack && old.ss_flags == 0);
  new.ss_flags = SS_DISABLE;
  check(sigaltstack(&new, NULL) == 0);
  say("on the alternate stack");
  return 0;
}
