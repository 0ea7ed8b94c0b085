/* Every form of address: base, index and scale, RIP-relative, absolute, FS and GS, 32-bit, negative, rsp and r12/r13.
 *
 * @build pie nopie static
 */
#include <asm/prctl.h>
#include <sys/syscall.h>
#include "pm.h"

static char area[1 << 16] __attribute__((aligned(4096))); /* the file is mapped over it */
char known_area[1 << 14] __attribute__((aligned(4096)));

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  int fd = pm_open(directory, "file", sizeof area), other = pm_open(directory, "other", sizeof known_area);
  int low_fd = pm_open(directory, "low", 8192);
  int rights = PROT_READ | PROT_WRITE;
  check(mmap(area, sizeof area, rights, MAP_SHARED | MAP_FIXED, fd, 0) == area);
  check(mmap(known_area, sizeof known_area, rights, MAP_SHARED | MAP_FIXED, other, 0) == known_area);
  char *low = mmap(NULL, 8192, rights, MAP_SHARED | MAP_32BIT, low_fd, 0);
  check(low != MAP_FAILED && (uintptr_t)low < 1UL << 31);

  area[0] = 1; /* RIP-relative, or absolute, by the compiler */
  *(volatile long *)(area + 1000) = 0x1111;
  known_area[5] = 7;
  __asm__ volatile("movq $0x77, known_area+64(%%rip)\nincl known_area+128(%%rip)" ::: "memory", "cc");
#ifndef __PIE__
  __asm__ volatile("movl $0x78, known_area+192\naddl $0x79, known_area+200" ::: "memory", "cc");
#endif
  long index = 3;
  __asm__ volatile("movq $2, (%0,%1,8)" ::"r"(area + 64), "r"(index) : "memory");
  __asm__ volatile("movb $3, 5(%0,%1,4)" ::"r"(area + 128), "r"(index) : "memory");
  __asm__ volatile("movw $4, -6(%0,%1,2)" ::"r"(area + 256), "r"(-index) : "memory");
  __asm__ volatile("movl $5, (,%0,1)" ::"r"(area + 320) : "memory");
  __asm__ volatile("movl $6, 0x10(,%0,8)" ::"r"((long)(area + 512) / 8) : "memory");
  __asm__ volatile("mov %0, %%r12\nmov %0, %%r13\nmovl $7, (%%r12)\nmovl $8, 4(%%r13)\nmovl $9, 0x200(%%r13,%1,1)" ::"r"(area + 640), "r"(index) : "r12", "r13", "memory");
  __asm__ volatile("mov %%rsp, %%r12\nmov %0, %%rsp\nmovq $10, 8(%%rsp)\nmovq $11, (%%rsp,%1,8)\nmov %%r12, %%rsp" ::"r"(area + 4096), "r"(index) : "r12", "memory");
  __asm__ volatile("movl $12, 0x7fffff00(%0)" ::"r"(area + 6000 - 0x7fffff00L) : "memory");
  __asm__ volatile("movl $13, -0x7fffff00(%0)" ::"r"(area + 6100 + 0x7fffff00L) : "memory");
  __asm__ volatile("addr32 movl $14, (%k0)" ::"r"(low + 100) : "memory");
  __asm__ volatile("addr32 movl $15, 8(%k0,%k1,4)" ::"r"(low + 200), "r"(index) : "memory");
  check(syscall(SYS_arch_prctl, ARCH_SET_GS, area + 8192) == 0);
  __asm__ volatile("movq $17, %%gs:0\nmovq $18, %%gs:(%0,%1,8)\nlock incl %%gs:100" ::"r"(40L), "r"(index) : "memory", "cc");
  unsigned long fs, offset;
  check(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0);
  offset = (unsigned long)area + 12288 - fs;
  __asm__ volatile("movq $19, %%fs:(%0)\nmovq $20, %%fs:16(%0,%1,8)" ::"r"(offset), "r"(index) : "memory");
#ifndef __PIE__
  __asm__ volatile("movabs %%eax, known_area+300\nmovabs %%al, known_area+333" ::"a"(0x16161616) : "memory");
#endif
  return 0;
}
