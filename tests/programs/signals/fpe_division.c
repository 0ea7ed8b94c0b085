/* SIGFPE of a division: code, rip, and a handler that changes the divisor. */
#include <ucontext.h>
#include "check.h"

static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  check(signal == SIGFPE && info->si_code == FPE_INTDIV);
  check((char *)info->si_addr == (char *)machine->uc_mcontext.gregs[REG_RIP]);
  check(machine->uc_mcontext.gregs[REG_TRAPNO] == 0);
  machine->uc_mcontext.gregs[REG_RCX] = 7;
  faults++;
}

int main(void) {
  handle(SIGFPE, handler, 0);
  for (int i = 1; i < 100; i++) {
    int quotient = i * 7, remainder = 0;
    __asm__ volatile("xor %%ecx, %%ecx\ncltd\nidiv %%ecx" : "+a"(quotient), "=&d"(remainder) : : "rcx", "cc");
    check(quotient == i && remainder == 0);
  }
  check(faults == 99);
  say("divided");
  return 0;
}
