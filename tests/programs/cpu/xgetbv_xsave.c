/* xgetbv, xsave and xrstor give and take the program's own state. */
#include <immintrin.h>
#include "check.h"

__attribute__((target("xsave"))) int main(void) {
  unsigned a, b, c, d;
  if (!cpu_has("xsave")) {
    say("no xsave: -");
    return 0;
  }
  unsigned long long features = _xgetbv(0);
  __cpuid_count(13, 0, a, b, c, d);
  static char area[16384] __attribute__((aligned(64)));
  check(b <= sizeof area);
  printf("%llx %u\n", features, b);
  float value = 0;
  __asm__ volatile("mov $0x40490fdb, %%eax\nmovd %%eax, %%xmm3\n" ::: "rax", "xmm3");
  _xsave64(area, 7);
  check(*(unsigned *)(area + 160 + 3 * 16) == 0x40490fdb);
  *(unsigned *)(area + 160 + 3 * 16) = 0x3f800000;
  _xrstor64(area, 7);
  __asm__ volatile("movss %%xmm3, %0" : "=m"(value));
  check(value == 1.0f);
  return 0;
}
