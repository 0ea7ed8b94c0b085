/* Rare branches: jrcxz, jecxz, loop, loope, loopne, ret with a count, jumps through memory, long nops. */
#include "check.h"

int main(void) {
  long result = 0, count;
  __asm__ volatile("xor %%ecx, %%ecx\njrcxz 1f\nud2\n1: mov $0x100000000, %%rcx\njecxz 2f\nud2\n2: mov $1, %%ecx\njrcxz 3f\nmov $3, %0\n3:" : "=r"(result) : : "rcx");
  check(result == 3);
  __asm__ volatile("mov $1000, %%rcx\nxor %0, %0\n1: add $2, %0\nloop 1b" : "=&r"(result) : : "rcx", "cc");
  check(result == 2000);
  __asm__ volatile("mov $100, %%rcx\nxor %0, %0\n1: inc %0\ncmp $10, %0\nloopne 1b\nmov %%rcx, %1" : "=&r"(result), "=r"(count) : : "rcx", "cc");
  check(result == 10 && count == 90);
  __asm__ volatile("mov $100, %%rcx\nxor %0, %0\n1: inc %0\ncmp $5, %0\nsetle %%al\ncmp $1, %%al\nloope 1b\nmov %%rcx, %1" : "=&r"(result), "=r"(count) : : "rcx", "rax", "cc");
  check(result == 6 && count == 94);
  __asm__ volatile("sub $128, %%rsp\nmov %%rsp, %%rbx\npush $1\npush $2\npush $3\ncall 1f\njmp 2f\n1: ret $24\n2: sub %%rsp, %%rbx\nmov %%rbx, %0\nadd $128, %%rsp" : "=r"(result) : : "rbx", "memory", "cc");
  check(result == 0);
  __asm__ volatile("lea 1f(%%rip), %%rax\nmov %%rax, -64(%%rsp)\njmp *-64(%%rsp)\nud2\n1: mov $9, %0" : "=r"(result) : : "rax", "memory");
  check(result == 9);
  __asm__ volatile(".byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\nrep nop\n.byte 0xf2, 0xeb, 0x02, 0x0f, 0x0b\nmov $10, %0" : "=r"(result));
  check(result == 10);
  say("branched");
  return 0;
}
