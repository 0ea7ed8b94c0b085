/* Flags survive branches, calls, system calls and reads of themselves, direction flag included. */
#include <sys/syscall.h>
#include "check.h"

static unsigned long flags_after_syscall(unsigned long set) {
  unsigned long seen;
  __asm__ volatile(
      "sub $128, %%rsp\npush %1\npopf\n"
      "mov %2, %%eax\nsyscall\n"
      "pushf\npop %0\ncld\nadd $128, %%rsp"
      : "=&r"(seen)
      : "r"(set), "i"(SYS_getppid)
      : "rax", "rcx", "r11", "memory", "cc");
  return seen;
}

static unsigned long flags_after_call(unsigned long set) {
  unsigned long seen;
  __asm__ volatile(
      "sub $128, %%rsp\npush %1\npopf\n"
      "call 1f\njmp 2f\n1: ret\n2: lea 3f(%%rip), %%rax\njmp *%%rax\n3: "
      "pushf\npop %0\ncld\nadd $128, %%rsp"
      : "=&r"(seen)
      : "r"(set)
      : "rax", "memory", "cc");
  return seen;
}

int main(void) {
  for (unsigned bits = 0; bits < 256; bits++) {
    /* carry 0, parity 2, adjust 4, zero 6, sign 7, direction 10, overflow 11; ID 21 */
    unsigned long set = 0x202 | (bits & 1) | (bits & 2) << 1 | (bits & 4) << 2 | (bits & 8) << 3 | (bits & 16) << 3 |
                        (bits & 32) << 5 | (bits & 64) << 5 | (unsigned long)(bits & 128) << 14;
    check(flags_after_call(set) == set);
    check(flags_after_syscall(set) == set);
  }
  unsigned char high;
  __asm__ volatile("stc\nlahf\nmov %%ah, %0" : "=r"(high) : : "rax", "cc");
  check(high & 1);
  __asm__ volatile("mov $0xd5, %%ah\nsahf\nlahf\nmov %%ah, %0" : "=r"(high) : : "rax", "cc");
  check((high & 0xd5) == 0xd5);
  say("256 combinations");
  return 0;
}
