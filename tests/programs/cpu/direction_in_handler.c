/* The direction flag is clear in a handler though it was set, and set again afterwards. */
#include <ucontext.h>
#include "check.h"

static volatile int seen;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  unsigned long flags;
  __asm__ volatile("sub $128, %%rsp\npushf\npop %0\nadd $128, %%rsp" : "=r"(flags) : : "memory", "cc");
  check((flags & 0x400) == 0);
  check(((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] & 0x400);
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
  seen++;
}

int main(void) {
  handle(SIGILL, handler, 0);
  for (int i = 1; i < 50; i++) {
    unsigned long flags;
    __asm__ volatile("std\nud2\nsub $128, %%rsp\npushf\npop %0\ncld\nadd $128, %%rsp" : "=r"(flags) : : "memory", "cc");
    check((flags & 0x400) && seen == i);
  }
  say("cleared and set");
  return 0;
}
