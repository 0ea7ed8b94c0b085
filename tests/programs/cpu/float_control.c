/* MXCSR, the x87 control word, rounding modes and the x87 stack survive calls, system calls and handlers.
 *
 * @flags -frounding-math -lm
 */
#include <fenv.h>
#include <xmmintrin.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  unsigned short word;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  check(word == 0x37f); /* the kernel gives handlers the default */
  __asm__ volatile("fninit\nfldpi\nfldpi");
  _mm_setcsr(0x1f80);
}

int main(void) {
  handle(SIGUSR1, handler, 0);
  unsigned short word = 0x0f7f, now;
  long double bottom, top;
  __asm__ volatile("fninit\nfldcw %0" ::"m"(word));
  _mm_setcsr(0x9fc0 | 0x6000);
  __asm__ volatile("fld1\nfldl2e");
  raise(SIGUSR1);
  getppid();
  __asm__ volatile("fnstcw %0" : "=m"(now));
  check(now == word);
  check((_mm_getcsr() & 0xffc0) == (0x9fc0 | 0x6000));
  __asm__ volatile("fstpt %0\nfstpt %1" : "=m"(top), "=m"(bottom));
  check(bottom == 1 && top > 1.4426L && top < 1.4427L);
  __asm__ volatile("fninit");
  _mm_setcsr(0x1f80);
  fesetround(FE_UPWARD);
  volatile double third = 1.0, three = 3.0;
  third /= three;
  fesetround(FE_DOWNWARD);
  volatile double lower = 1.0 / three;
  check(third > lower);
  say("kept");
  return 0;
}
