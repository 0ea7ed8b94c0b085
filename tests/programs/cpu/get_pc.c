/* Idioms that look at or bend return addresses: call of the next instruction, pushed jumps, skipped bytes. */
#include "check.h"

int main(void) {
  for (int i = 0; i < 50; i++) {
    unsigned long seen, wanted;
    __asm__ volatile("sub $128, %%rsp\ncall 1f\n1: pop %0\nlea 1b(%%rip), %1\nadd $128, %%rsp" : "=r"(seen), "=r"(wanted) : : "memory");
    check(seen == wanted);
    long result;
    __asm__ volatile("sub $128, %%rsp\nlea 1f(%%rip), %%rax\npush %%rax\nret\nud2\n1: mov $5, %0\nadd $128, %%rsp" : "=r"(result) : : "rax", "memory");
    check(result == 5);
    __asm__ volatile(
        "sub $128, %%rsp\ncall 1f\n.byte 0x0f, 0x0b\nmov $6, %0\njmp 2f\n" /* the callee returns behind the ud2 */
        "1: addq $2, (%%rsp)\nret\n2: add $128, %%rsp"
        : "=r"(result) : : "memory", "cc");
    check(result == 6);
    __asm__ volatile("sub $128, %%rsp\nlea 1f(%%rip), %%rax\npush %%rax\npush %%rax\nadd $8, %%rsp\nret $0\n1: mov $7, %0\nadd $128, %%rsp" : "=r"(result) : : "rax", "memory", "cc");
    check(result == 7);
  }
  say("found");
  return 0;
}
