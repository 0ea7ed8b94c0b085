/* Rare instructions of the integer set give the values of the manual: RIP-relative forms, bmi, crc32, bcd-free. */
#include "check.h"

static long table[4] = {10, 20, 30, 40};

int main(void) {
  long result;
  __asm__ volatile("mov %1, %0" : "=r"(result) : "m"(table[2]));
  check(result == 30);
  __asm__ volatile("lea %1, %0" : "=r"(result) : "m"(table[1]));
  check(result == (long)&table[1]);
  __asm__ volatile("addq $5, %1\nmov %1, %0" : "=r"(result), "+m"(table[0]) : : "cc");
  check(result == 15);
  __asm__ volatile("cmpq $20, %1\nmov $1, %%eax\ncmove %1, %%rax\nmov %%rax, %0" : "=r"(result) : "m"(table[1]) : "rax", "cc");
  check(result == 20);
  __asm__ volatile("bswap %0" : "=r"(result) : "0"(0x0102030405060708));
  check(result == 0x0807060504030201);
  __asm__ volatile("mov $0x1234, %%ax\nxchg %%al, %%ah\nmovzx %%ax, %0" : "=r"(result) : : "rax");
  check(result == 0x3412);
  unsigned long low, high;
  __asm__ volatile("mul %3" : "=a"(low), "=d"(high) : "0"(~0UL), "r"(~0UL) : "cc");
  check(low == 1 && high == ~0UL - 1);
  __asm__ volatile("bsf %1, %0" : "=r"(result) : "r"(0x100L) : "cc");
  check(result == 8);
  long words[2] = {0, 0};
  __asm__ volatile("btsq %1, %0" : "+m"(words) : "r"(70L) : "cc", "memory");
  check(words[1] == 64);
  __asm__ volatile("sub $128, %%rsp\nenter $16, $0\nmov %%rbp, %%rax\nsub %%rsp, %%rax\nmov %%rax, %0\nleave\nadd $128, %%rsp" : "=r"(result) : : "rax", "memory", "cc");
  check(result == 16);
  __asm__ volatile("sub $128, %%rsp\npushq $0x1234\npopq %0\nadd $128, %%rsp" : "=r"(result) : : "memory", "cc");
  check(result == 0x1234);
  __asm__ volatile("sub $136, %%rsp\npushw $0x55\npopw %w0\nadd $136, %%rsp\nmovzwl %w0, %k0" : "=r"(result) : : "memory", "cc");
  check(result == 0x55);
  __asm__ volatile("mov $0xff, %%al\nxlat" : "=a"(result) : "b"(memset(malloc(256), 9, 256)), "0"(0L));
  check((result & 255) == 9);
  if (cpu_has("bmi2")) {
    __asm__ volatile("pdep %2, %1, %0" : "=r"(result) : "r"(0xfL), "r"(0x1111L));
    check(result == 0x1111);
  }
  if (cpu_has("sse4.2")) {
    unsigned crc = 0;
    __asm__ volatile("crc32q %1, %q0" : "+r"(crc) : "m"(table[3]));
    check(crc != 0);
  }
  say("as the manual says");
  return 0;
}
