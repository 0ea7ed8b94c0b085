/* Vector registers survive handlers that use them, and the handler's ucontext shows and changes them. */
#include <immintrin.h>
#include <sys/time.h>
#include <ucontext.h>
#include "check.h"

static volatile int ticks;

__attribute__((target("avx2"))) static void dirty_wide(void) {
  __m256i ones = _mm256_set1_epi8((char)ticks);
  __asm__ volatile("vmovdqa %0, %%ymm7\nvmovdqa %0, %%ymm15" ::"x"(ones) : "ymm7", "ymm15");
}

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  ucontext_t *machine = context;
  check(machine->uc_mcontext.fpregs->_xmm[6].element[0] == 0xabcd0001);
  if (cpu_has("avx2")) dirty_wide();
  __asm__ volatile("pxor %%xmm6, %%xmm6" ::: "xmm6");
  machine->uc_mcontext.fpregs->_xmm[5].element[1] = 0x55;
  ticks++;
}

__attribute__((target("avx2"))) static int spin_wide(void) {
  static const int known[8] __attribute__((aligned(32))) = {1, 2, 3, 4, 5, 6, 7, 8};
  int bad = 0;
  while (ticks < 100 && !bad) {
    __asm__ volatile(
        "vmovd %2, %%xmm6\nvmovdqa %1, %%ymm7\nmov $2000, %%ecx\n"
        "1: dec %%ecx\njnz 1b\n"
        "vpcmpeqd %1, %%ymm7, %%ymm8\nvpmovmskb %%ymm8, %0\nnot %0"
        : "=r"(bad)
        : "m"(known), "r"(0xabcd0001)
        : "ecx", "xmm5", "xmm6", "ymm7", "ymm8", "cc", "memory");
  }
  return bad;
}

int main(void) {
  struct itimerval every = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
  unsigned changed;
  handle(SIGALRM, handler, 0);
  if (cpu_has("avx2")) {
    __asm__ volatile("movd %0, %%xmm6" ::"r"(0xabcd0001) : "xmm6");
    setitimer(ITIMER_REAL, &every, NULL);
    check(spin_wide() == 0);
    setitimer(ITIMER_REAL, &off, NULL);
  }
  __asm__ volatile("movd %1, %%xmm6\npxor %%xmm5, %%xmm5\nmov %2, %%edi\nmov %3, %%esi\nmov $234, %%eax\nmov %4, %%edx\nxchg %%edi, %%esi\nxchg %%edi, %%esi\nsyscall\npsrldq $4, %%xmm5\nmovd %%xmm5, %0"
                   : "=r"(changed)
                   : "r"(0xabcd0001), "r"(getpid()), "r"(getpid()), "i"(SIGALRM)
                   : "rax", "rcx", "r11", "rdi", "rsi", "rdx", "xmm5", "xmm6", "memory");
  check(changed == 0x55);
  say("preserved");
  return 0;
}
