/* siginfo and ucontext of a fault: address, code, error code, trap number, and the program's own rip. */
#include <ucontext.h>
#include <setjmp.h>
#include "check.h"

static sigjmp_buf back;
static volatile uintptr_t wanted;
static volatile long want_write;
extern char load_here[], store_here[];

static void handler(int signal, siginfo_t *info, void *context) {
  ucontext_t *machine = context;
  check(signal == SIGSEGV && info->si_code == SEGV_MAPERR && (uintptr_t)info->si_addr == wanted);
  check(machine->uc_mcontext.gregs[REG_TRAPNO] == 14);
  check((machine->uc_mcontext.gregs[REG_ERR] & 2) == want_write);
  check((uintptr_t)machine->uc_mcontext.gregs[REG_CR2] == wanted);
  char *rip = (char *)machine->uc_mcontext.gregs[REG_RIP];
  check(rip == (want_write ? store_here : load_here));
  check(machine->uc_mcontext.gregs[REG_R9] == 0x1234567890);
  siglongjmp(back, 1);
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  for (int i = 0; i < 100; i++) {
    wanted = 0x1000 + (uintptr_t)i * 8;
    want_write = i % 2 * 2;
    if (sigsetjmp(back, 1) != 0) continue;
    if (want_write)
      __asm__ volatile("movabs $0x1234567890, %%r9\n.globl store_here\nstore_here: movq $1, (%0)" ::"r"(wanted) : "r9", "memory");
    else
      __asm__ volatile("movabs $0x1234567890, %%r9\n.globl load_here\nload_here: mov (%0), %%rax" ::"r"(wanted) : "r9", "rax");
    check(!"reached");
  }
  say("100 faults described");
  return 0;
}
