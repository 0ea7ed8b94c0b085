/* A fault shows the resume flag in the saved flags, a trap and a sent signal do not. */
#include <ucontext.h>
#include "check.h"

static volatile int resume;

static void handler(int number, siginfo_t *info, void *argument) {
  (void)info;
  ucontext_t *context = argument;
  greg_t *registers = context->uc_mcontext.gregs;
  resume = (registers[REG_EFL] >> 16) & 1;
  if (number == SIGSEGV) registers[REG_RIP] += 2; /* movl %eax, (%rcx) */
  if (number == SIGILL) registers[REG_RIP] += 2;  /* ud2 */
  if (number == SIGFPE) registers[REG_RIP] += 2;  /* divl %ecx */
}

int main(void) {
  int numbers[] = {SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGUSR1};
  for (int i = 0; i < 5; i++) handle(numbers[i], handler, 0);
  __asm__ volatile("xorl %%ecx, %%ecx\n.byte 0x89, 0x01" ::: "rcx", "memory");
  printf("page fault %d\n", resume);
  __asm__ volatile("ud2");
  printf("undefined instruction %d\n", resume);
  __asm__ volatile("xorl %%ecx, %%ecx\n.byte 0xf7, 0xf1" ::: "rcx", "rax", "rdx");
  printf("division %d\n", resume);
  __asm__ volatile("int3");
  printf("breakpoint %d\n", resume);
  raise(SIGUSR1);
  printf("sent %d\n", resume);
  return 0;
}
