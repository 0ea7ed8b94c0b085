/* CPUID and the capabilities in the auxiliary vector are the machine's; rdtsc and rdtscp go forward. */
#include <cpuid.h>
#include <sys/auxv.h>
#include <x86intrin.h>
#include "check.h"

int main(void) {
  unsigned a, b, c, d, hash = 0;
  check(__get_cpuid(0, &a, &b, &c, &d));
  unsigned highest = a;
  for (unsigned leaf = 0; leaf <= highest && leaf < 32; leaf++) {
    if (leaf == 1 || leaf == 0xb || leaf == 0xd || leaf == 0x1f || leaf == 4 || leaf == 0x19) continue; /* these name the core */
    __cpuid_count(leaf, 0, a, b, c, d);
    hash = hash * 31 + a + b * 3 + c * 5 + d * 7;
  }
  __cpuid_count(1, 0, a, b, c, d);
  printf("%u %08x %08x %08x\n", highest, hash, c, d);
  printf("%lx %lx\n", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
  __cpuid_count(7, 0, a, b, c, d);
  printf("clwb %d clflushopt %d avx512f %d\n", b >> 24 & 1, b >> 23 & 1, b >> 16 & 1);
  unsigned core;
  unsigned long long last = __rdtsc();
  for (int i = 0; i < 1000; i++) {
    unsigned long long now = i % 2 ? __rdtsc() : __rdtscp(&core);
    check(now >= last);
    last = now;
  }
  return 0;
}
