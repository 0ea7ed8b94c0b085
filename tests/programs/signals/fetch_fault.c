/* Branches of all forms to addresses without code: the signal, its information and the registers. */
#include <setjmp.h>
#include <ucontext.h>
#include "check.h"

static sigjmp_buf back;
static volatile uintptr_t branch, stack_before;
static const char *volatile form;
static volatile uintptr_t target;

static void handler(int signal, siginfo_t *info, void *argument) {
  greg_t *registers = ((ucontext_t *)argument)->uc_mcontext.gregs;
  uintptr_t at = (uintptr_t)registers[REG_RIP];
  const char *where = at == branch ? "the branch" : at == target ? "the target" : "elsewhere";
  printf("%s to %lx: signal %d code %d address %lx, trap %llx error %llx, at %s, stack %+ld, rcx %llx, rax %llx\n", form,
         target, signal, info->si_code, (uintptr_t)info->si_addr, registers[REG_TRAPNO], registers[REG_ERR], where,
         (long)((uintptr_t)registers[REG_RSP] - stack_before), registers[REG_RCX], registers[REG_RAX]);
  siglongjmp(back, 1);
}

#define TRY(name, before, instruction)                                                                             \
  static __attribute__((noinline)) void name(uintptr_t to) {                                                       \
    form = #name;                                                                                                  \
    if (sigsetjmp(back, 1) == 0)                                                                                   \
      __asm__ volatile("sub $256, %%rsp\n" before "lea 1f(%%rip), %%rdx\nmov %%rdx, %1\nmov %%rsp, %2\n"            \
                       "mov $0x1234, %%ecx\n1: " instruction                                                       \
                       :                                                                                           \
                       : "a"(to), "m"(branch), "m"(stack_before)                                                   \
                       : "rcx", "rdx", "memory");                                                                  \
  }

TRY(jump, "", "jmp *%%rax")
TRY(jump_memory, "mov %%rax, (%%rsp)\n", "jmp *(%%rsp)")
TRY(call, "", "call *%%rax")
TRY(call_memory, "mov %%rax, 64(%%rsp)\n", "call *64(%%rsp)")
TRY(ret, "mov %%rax, (%%rsp)\n", "ret")
TRY(ret_more, "mov %%rax, (%%rsp)\n", "ret $24")

int main(void) {
  handle(SIGSEGV, handler, 0);
  handle(SIGBUS, handler, 0);
  static const uintptr_t targets[] = {0x10, 0x123456789abcdef0, 0x0000800000000000, 0x00007ffffffff000,
                                      0xffff7fffffffffff, 0xffff800000000000, 0xffffffffff601000, 0xffffffffffffffff,
                                      0x0100000000000000, 0x7fffffffffffffff};
  for (int round = 0; round < 2; round++)
    for (unsigned i = 0; i < sizeof targets / sizeof *targets; i++) {
      target = targets[i];
      jump(target), jump_memory(target), call(target), call_memory(target), ret(target), ret_more(target);
    }
  return 0;
}
