/* Every general register, the flags and the red zone survive signals that come at any instruction.
 *
 * @build pie static
 */
#include <sys/time.h>
#include "check.h"

static volatile long ticks;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  char noise[512];
  memset(noise, (int)ticks, sizeof noise);
  __asm__ volatile("" ::"r"(noise) : "memory");
  ticks++;
}

/* Runs with known values in all registers and the red zone until `ticks` reaches the limit; 0 if all held. */
long spin(volatile long *ticks, long limit);
__asm__(
    ".globl spin\nspin:\n"
    "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov $11, %rax\nmov $12, %rbx\nmov $13, %rcx\nmov $14, %rdx\nmov $15, %rbp\n"
    "mov $18, %r8\nmov $19, %r9\nmov $20, %r10\nmov $21, %r11\nmov $22, %r12\nmov $23, %r13\nmov $24, %r14\nmov $25, %r15\n"
    "movq $77, -8(%rsp)\nmovq $78, -128(%rsp)\n"
    "1: cmp %rsi, (%rdi)\nlea 1(%rax), %rax\nlea -1(%rax), %rax\njge 2f\n"
    "cmp $11, %rax\njne 3f\ncmp $12, %rbx\njne 3f\ncmp $13, %rcx\njne 3f\ncmp $14, %rdx\njne 3f\ncmp $15, %rbp\njne 3f\n"
    "cmp $18, %r8\njne 3f\ncmp $19, %r9\njne 3f\ncmp $20, %r10\njne 3f\ncmp $21, %r11\njne 3f\ncmp $22, %r12\njne 3f\n"
    "cmp $23, %r13\njne 3f\ncmp $24, %r14\njne 3f\ncmp $25, %r15\njne 3f\n"
    "cmpq $77, -8(%rsp)\njne 3f\ncmpq $78, -128(%rsp)\njne 3f\n"
    "stc\nlea (%rdi), %rdi\njnc 3f\njmp 1b\n"
    "2: xor %eax, %eax\njmp 4f\n3: mov $1, %eax\n"
    "4: pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");

int main(void) {
  struct itimerval every = {{0, 500}, {0, 500}};
  handle(SIGALRM, handler, SA_RESTART);
  setitimer(ITIMER_REAL, &every, NULL);
  check(spin(&ticks, 200) == 0);
  say("held");
  return 0;
}
