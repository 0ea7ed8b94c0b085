/* FS and GS bases: arch_prctl and wrfsbase; accesses through both. */
#include <asm/prctl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include "check.h"

int main(void) {
  static unsigned long area[8] = {11, 22, 33}, other[8] = {44, 55, 66};
  unsigned long fs, gs, value;
  check(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0 && fs != 0);
  __asm__ volatile("mov %%fs:0, %0" : "=r"(value));
  check(value == fs);
  check(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0 && gs == 0);
  check(syscall(SYS_arch_prctl, ARCH_SET_GS, area) == 0);
  __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
  check(value == 22);
  __asm__ volatile("movq $99, %%gs:16\nincq %%gs:16" ::: "memory", "cc");
  check(area[2] == 100);
  getppid();
  check(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0 && gs == (unsigned long)area);
  if (getauxval(AT_HWCAP2) & 2) {
    __asm__ volatile("rdfsbase %0" : "=r"(value));
    check(value == fs);
    __asm__ volatile("wrgsbase %1\nmov %%gs:(,%2,8), %0\nrdgsbase %1" : "=r"(value), "+r"(gs) : "r"(1L));
    check(value == 22);
    __asm__ volatile("rdfsbase %%rcx\nwrfsbase %1\nmov %%fs:16, %0\nwrfsbase %%rcx" : "=&r"(value) : "r"(other) : "rcx");
    check(value == 66);
  }
  check(fork() >= 0);
  check(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs) == 0 && gs == (unsigned long)area);
  if (wait(NULL) > 0) say("bases");
  return 0;
}
