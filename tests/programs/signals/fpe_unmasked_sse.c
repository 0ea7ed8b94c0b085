/* An unmasked SSE exception gives SIGFPE; the handler masks it in the saved MXCSR. */
#include <ucontext.h>
#include <xmmintrin.h>
#include "check.h"

static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  check(signal == SIGFPE && info->si_code == FPE_FLTDIV);
  check((machine->uc_mcontext.fpregs->mxcsr & 0x200) == 0);
  machine->uc_mcontext.fpregs->mxcsr |= 0x1f80;
  faults++;
}

int main(void) {
  handle(SIGFPE, handler, 0);
  volatile float zero = 0, one = 1, result;
  _mm_setcsr(_mm_getcsr() & ~0x200u);
  result = one / zero;
  check(faults == 1 && result == __builtin_inff());
  check((_mm_getcsr() & 0x1f80) == 0x1f80);
  say("masked");
  return 0;
}
