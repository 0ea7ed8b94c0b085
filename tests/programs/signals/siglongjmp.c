/* siglongjmp out of handlers, often, from the same and from the alternate stack, restores the mask.
 *
 * @build pie static musl
 */
#include <setjmp.h>
#include "check.h"

static sigjmp_buf back;
static volatile int jumps;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  jumps++;
  siglongjmp(back, jumps);
}

int main(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigset_t mask;
  check(sigaltstack(&stack, NULL) == 0);
  handle(SIGUSR1, handler, 0);
  handle(SIGSEGV, handler, SA_ONSTACK);
  for (volatile int i = 0; i < 2000; i++) {
    if (sigsetjmp(back, 1) == 0) {
      if (i % 2) raise(SIGUSR1);
      *(volatile int *)16 = 1;
      check(!"reached");
    }
    check(jumps == i + 1);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    check(!sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGSEGV));
  }
  say("2000 jumps");
  return 0;
}
