/* SIGILL of ud2 and SIGTRAP of int3, int $3 and single steps by the trap flag, with their addresses. */
#include <ucontext.h>
#include "check.h"

static volatile int ills, traps, steps;
extern char after_breakpoint[], here_undefined[];

static void on_ill(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *machine = context;
  check(info->si_code == ILL_ILLOPN && (char *)info->si_addr == here_undefined);
  machine->uc_mcontext.gregs[REG_RIP] += 2;
  ills++;
}

static void on_trap(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *machine = context;
  if (info->si_code == SI_KERNEL) {
    traps++;
    check(machine->uc_mcontext.gregs[REG_TRAPNO] == 3);
    check(traps != 1 || (char *)machine->uc_mcontext.gregs[REG_RIP] == after_breakpoint);
  } else {
    check(info->si_code == TRAP_TRACE);
    steps++;
  }
}

int main(void) {
  handle(SIGILL, on_ill, 0);
  handle(SIGTRAP, on_trap, 0);
  __asm__ volatile("int3\n.globl after_breakpoint\nafter_breakpoint: nop");
  __asm__ volatile(".byte 0xcd, 3");
  __asm__ volatile(".globl here_undefined\nhere_undefined: ud2");
  check(ills == 1 && traps == 2 && steps == 0);
  say("trapped");
  return 0;
}
