/* A program that sets the trap flag steps through its own instructions. */
#include <ucontext.h>
#include "check.h"

static volatile int steps;
static volatile uintptr_t first, last;

static void on_trap(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *machine = context;
  check(info->si_code == TRAP_TRACE);
  last = (uintptr_t)machine->uc_mcontext.gregs[REG_RIP];
  if (steps++ == 0) first = last;
}

int main(void) {
  handle(SIGTRAP, on_trap, 0);
  long flags_seen;
  __asm__ volatile(
      "sub $128, %%rsp\n"
      "pushf\norq $0x100, (%%rsp)\npopf\n"
      "nop\nnop\nnop\n"
      "pushf\npop %0\n"
      "pushf\nandq $~0x100, (%%rsp)\npopf\n"
      "nop\n"
      "add $128, %%rsp\n"
      : "=r"(flags_seen)
      :
      : "memory", "cc");
  check(flags_seen & 0x100);
  printf("%d steps over %d bytes\n", steps, (int)(last - first));
  return 0;
}
