/* rdrand, rdseed, rdpid, serialising instructions, prefetches and flushes of ordinary memory run. */
#include <cpuid.h>
#include <immintrin.h>
#include "check.h"

int main(void) {
  unsigned a, b, c, d;
  static char line[256] __attribute__((aligned(64)));
  __cpuid_count(1, 0, a, b, c, d);
  if (c & (1u << 30)) {
    unsigned long value = 0;
    unsigned char ok = 0;
    for (int i = 0; i < 100 && !ok; i++) __asm__ volatile("rdrand %0\nsetc %1" : "=r"(value), "=q"(ok) : : "cc");
    check(ok);
  }
  __cpuid_count(7, 0, a, b, c, d);
  memset(line, 3, sizeof line);
  __asm__ volatile("clflush %0" : "+m"(line[64]));
  if (b & (1u << 23)) __asm__ volatile("clflushopt %0" : "+m"(line[64]));
  if (b & (1u << 24)) __asm__ volatile("clwb %0" : "+m"(line[128]));
  if (c & (1u << 22)) {
    unsigned long core;
    __asm__ volatile("rdpid %0" : "=r"(core));
    check((core & 4095) < 4096);
  }
  __asm__ volatile("mfence\nlfence\nsfence\npause\nprefetcht0 %0\nprefetchw %0" ::"m"(line[0]));
  __asm__ volatile("lock orl $0, (%%rsp)" ::: "memory", "cc");
  for (int i = 0; i < 256; i++) check(line[i] == 3);
  say("ran");
  return 0;
}
