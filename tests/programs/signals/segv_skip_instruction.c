/* Handlers that change rip and other registers in the ucontext are obeyed. */
#include <ucontext.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *machine = context;
  machine->uc_mcontext.gregs[REG_RIP] = machine->uc_mcontext.gregs[REG_R8];
  machine->uc_mcontext.gregs[REG_RBX] = 4242;
  machine->uc_mcontext.gregs[REG_R15] += 1;
  machine->uc_mcontext.gregs[REG_EFL] |= 1; /* carry */
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  handle(SIGILL, handler, 0);
  for (long i = 0; i < 200; i++) {
    long rbx = 1, r15 = i;
    unsigned char carry;
    __asm__ volatile(
        "mov %3, %%r15\nlea 1f(%%rip), %%r8\nclc\n"
        "movq $0, 8\n"
        "ud2\n"
        "1: setc %2\nmov %%rbx, %0\nmov %%r15, %1"
        : "=r"(rbx), "=r"(r15), "=r"(carry)
        : "r"(i)
        : "rbx", "r8", "r15", "memory", "cc");
    check(rbx == 4242 && r15 == i + 1 && carry == 1);
  }
  say("200 detours");
  return 0;
}
