/* Watched functions on stacks of their own that take turns.
 *
 * @flags -O1
 */
#include <ucontext.h>
#include "call_log.h"

enum { STACK = 256 << 10 };

static ucontext_t home, away[2];

watched long step(long n) {
  log_call("call", "step", n);
  log_call("return", "step", n + 1);
  return n + 1;
}

watched long part(long which) {
  log_call("call", "part", which);
  for (long i = 0; i < 3; i++) {
    step(which * 10 + i);
    check(swapcontext(&away[which], &home) == 0);
  }
  log_call("return", "part", which);
  return which;
}

static void run(int which) { part(which); }

int main(void) {
  for (int i = 0; i < 2; i++) {
    check(getcontext(&away[i]) == 0);
    away[i].uc_stack.ss_sp = malloc(STACK);
    away[i].uc_stack.ss_size = STACK;
    away[i].uc_link = &home;
    makecontext(&away[i], (void (*)(void))run, 1, i);
  }
  for (int turn = 0; turn < 4; turn++) {
    for (int i = 0; i < 2; i++) {
      check(swapcontext(&home, &away[i]) == 0);
      step(100 + turn);
    }
  }
  return 0;
}
