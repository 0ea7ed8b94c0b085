/* A handler that emulates the faulting load by writing the destination register and stepping rip over it. */
#include <ucontext.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *machine = context;
  unsigned char *code = (unsigned char *)machine->uc_mcontext.gregs[REG_RIP];
  check(code[0] == 0x48 && code[1] == 0x8b && code[2] == 0x03); /* mov (%rbx), %rax: read as the program's code */
  machine->uc_mcontext.gregs[REG_RAX] = (long)info->si_addr * 3;
  machine->uc_mcontext.gregs[REG_RIP] += 3;
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  long sum = 0;
  for (long i = 8; i < 800; i += 8) {
    long value;
    __asm__ volatile("mov (%%rbx), %%rax" : "=a"(value) : "b"(i));
    check(value == i * 3);
    sum += value;
  }
  printf("%ld\n", sum);
  return 0;
}
