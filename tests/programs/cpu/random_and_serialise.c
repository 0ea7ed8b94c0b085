/* rdrand, rdseed, rdpid, serialising instructions, prefetches and flushes of ordinary memory run. */
#include <immintrin.h>
#include "check.h"

int main(void) {
  static char line[256] __attribute__((aligned(64)));
  if (cpu_has("rdrand")) {
    unsigned long value = 0;
    unsigned char ok = 0;
    for (int i = 0; i < 100 && !ok; i++) __asm__ volatile("rdrand %0\nsetc %1" : "=r"(value), "=q"(ok) : : "cc");
    check(ok);
  }
  memset(line, 3, sizeof line);
  __asm__ volatile("clflush %0" : "+m"(line[64]));
  if (cpu_has("clflushopt")) __asm__ volatile("clflushopt %0" : "+m"(line[64]));
  if (cpu_has("clwb")) __asm__ volatile("clwb %0" : "+m"(line[128]));
  if (cpu_has("rdpid")) {
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
