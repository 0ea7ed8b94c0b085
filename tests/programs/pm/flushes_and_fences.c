/* Stores with every flush and fence between them, of persistent and of ordinary memory. */
#include "pm.h"

int main(int argc, char **argv) {
  static char ordinary[4096];
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 16);
  int optimised = cpu_has("clflushopt"), write_back = cpu_has("clwb");
  for (int i = 0; i < 1000; i++) {
    char *line = map + (noise() % 1000) * 64;
    *(volatile uint64_t *)line = noise();
    *(volatile uint64_t *)(line + 8 * (i % 8)) = noise();
    __asm__ volatile("clflush (%0)" ::"r"(line + i % 64) : "memory");
    if (optimised) __asm__ volatile("clflushopt (%0)\nsfence" ::"r"(line) : "memory");
    *(volatile char *)(line + 63) = (char)i;
    if (write_back) __asm__ volatile("clwb (%0)\nclwb 64(%1)" ::"r"(line), "r"(ordinary) : "memory");
    if (i % 3 == 0) __asm__ volatile("sfence" ::: "memory");
    if (i % 3 == 1) __asm__ volatile("mfence" ::: "memory");
    if (i % 3 == 2) __asm__ volatile("lock incl %0" : "+m"(ordinary[128]) : : "memory", "cc");
    if (i % 100 == 0) check(msync(map, 1 << 16, i % 200 ? MS_SYNC : MS_ASYNC) == 0);
  }
  return 0;
}
