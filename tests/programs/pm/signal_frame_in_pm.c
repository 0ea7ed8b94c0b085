/* Signals delivered while the stack, then the alternate stack, is in persistent memory.
 *
 * @varying
 */
#include <ucontext.h>
#include "pm.h"

static ucontext_t home, there;
static volatile int handled;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  volatile char local[300];
  for (int i = 0; i < 300; i++) local[i] = (char)(handled + i);
  handled += local[0] == (char)handled;
}

static void body(void) {
  for (int i = 0; i < 10; i++) raise(SIGUSR1);
}

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char *map = pm_map(directory, "stack", 1 << 18), *other = pm_map(directory, "alternate", 1 << 18);
  handle(SIGUSR1, handler, 0);
  check(getcontext(&there) == 0);
  there.uc_stack.ss_sp = map;
  there.uc_stack.ss_size = 1 << 18;
  there.uc_link = &home;
  makecontext(&there, body, 0);
  check(swapcontext(&home, &there) == 0 && handled == 10);
  stack_t stack = {.ss_sp = other, .ss_size = 1 << 18};
  check(sigaltstack(&stack, NULL) == 0);
  handle(SIGUSR1, handler, SA_ONSTACK);
  for (int i = 0; i < 10; i++) raise(SIGUSR1);
  check(handled == 20);
  return 0;
}
