/* All 32 zmm and 8 mask registers survive system calls, handlers and other threads. */
#include <immintrin.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include "check.h"

static volatile int ticks;

__attribute__((target("avx512f,avx512bw"))) static void spoil(int value) {
  __m512i pattern = _mm512_set1_epi32(value);
  __asm__ volatile("vmovdqa64 %0, %%zmm1\nvmovdqa64 %0, %%zmm17\nvmovdqa64 %0, %%zmm31\nkxnorq %%k3, %%k3, %%k3\nkmovd %1, %%k5" ::"v"(pattern), "r"(value)
                   : "zmm1", "zmm17", "zmm31", "k3", "k5");
}

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  spoil(-1 - ticks);
  ticks++;
}

__attribute__((target("avx512f,avx512bw"))) static void *hold(void *argument) {
  int number = (int)(long)argument, mask = 0x5a5a0 + number;
  while (ticks < 150) {
    int got[4], got_mask;
    __asm__ volatile(
        "vpbroadcastd %5, %%zmm1\nvpaddd %%zmm1, %%zmm1, %%zmm17\nvpaddd %%zmm1, %%zmm17, %%zmm31\nkmovd %6, %%k5\n"
        "mov $500, %%r12d\n1: dec %%r12d\njnz 1b\n"
        "mov %7, %%eax\nsyscall\n"
        "mov $500, %%r12d\n1: dec %%r12d\njnz 1b\n"
        "vextracti32x4 $3, %%zmm1, %%xmm2\nvpextrd $3, %%xmm2, %0\n"
        "vextracti32x4 $3, %%zmm17, %%xmm2\nvpextrd $2, %%xmm2, %1\n"
        "vextracti32x4 $1, %%zmm31, %%xmm2\nvpextrd $1, %%xmm2, %2\n"
        "vmovd %%xmm31, %3\nkmovd %%k5, %4"
        : "=&r"(got[0]), "=&r"(got[1]), "=&r"(got[2]), "=&r"(got[3]), "=&r"(got_mask)
        : "r"(number), "r"(mask), "i"(SYS_getppid)
        : "rax", "rcx", "r11", "r12", "zmm1", "xmm2", "zmm17", "zmm31", "k5", "cc", "memory");
    check(got[0] == number && got[1] == 2 * number && got[2] == 3 * number && got[3] == 3 * number && got_mask == mask);
  }
  return NULL;
}

int main(void) {
  struct itimerval every = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
  if (cpu_has("avx512bw")) {
    pthread_t threads[3];
    handle(SIGALRM, handler, SA_RESTART);
    for (long i = 0; i < 3; i++) check(pthread_create(&threads[i], NULL, hold, (void *)(i * 1000 + 7)) == 0);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &off, NULL);
  }
  say("held, or not supported here");
  return 0;
}
