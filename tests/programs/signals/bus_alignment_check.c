/* With the alignment-check flag set, a misaligned access gives SIGBUS. */
#include <ucontext.h>
#include "check.h"

static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  check(signal == SIGBUS && info->si_code == BUS_ADRALN);
  machine->uc_mcontext.gregs[REG_EFL] &= ~0x40000L;
  faults++;
}

int main(void) {
  handle(SIGBUS, handler, 0);
  static char bytes[64] __attribute__((aligned(64)));
  int value;
  bytes[1] = 7;
  __asm__ volatile(
      "sub $128, %%rsp\npushf\norq $0x40000, (%%rsp)\npopf\n"
      "mov 1(%1), %0\n"
      "add $128, %%rsp"
      : "=&r"(value)
      : "r"(bytes)
      : "memory", "cc");
  check(faults == 1 && value == 7);
  say("misaligned");
  return 0;
}
