/* Masked stores write only the bytes of their mask; bytes beyond the mapping that are masked off do not fault. */
#include "pm.h"

static void sse(struct cursor *cursor) {
  form(cursor, "maskmovdqu %%xmm1, %%xmm0") form(cursor, "pxor %%xmm1, %%xmm1\nmaskmovdqu %%xmm1, %%xmm0") form(cursor, "pcmpeqb %%xmm1, %%xmm1\nmaskmovdqu %%xmm1, %%xmm0");
  form(cursor, "movq %%rax, %%mm0\nmovq %%rdx, %%mm1\nmaskmovq %%mm1, %%mm0\nemms");
}

static void avx2(struct cursor *cursor) {
#define WIDE "vinsertf128 $1, %%xmm3, %%ymm0, %%ymm0\nvinsertf128 $1, %%xmm2, %%ymm1, %%ymm1\n"
  form(cursor, "vmaskmovps %%xmm0, %%xmm1, (%%rdi)") form(cursor, WIDE "vmaskmovps %%ymm0, %%ymm1, (%%rdi)\nvzeroupper") form(cursor, WIDE "vmaskmovpd %%ymm0, %%ymm1, (%%rdi)\nvzeroupper");
  form(cursor, "vpmaskmovd %%xmm0, %%xmm1, (%%rdi)") form(cursor, WIDE "vpmaskmovd %%ymm0, %%ymm1, (%%rdi)\nvzeroupper") form(cursor, WIDE "vpmaskmovq %%ymm0, %%ymm1, (%%rdi)\nvzeroupper");
  form(cursor, "vmaskmovdqu %%xmm1, %%xmm0");
}

__attribute__((target("avx2"))) static void at_the_end(char *end) {
  static const int low[8] = {-1, -1, 0, 0, 0, 0, 0, 0};
  __asm__ volatile("vmovdqu %0, %%ymm1\nvpcmpeqd %%ymm0, %%ymm0, %%ymm0\nvpmaskmovd %%ymm0, %%ymm1, -8(%1)\nvzeroupper" ::"m"(low), "r"(end) : "xmm0", "xmm1", "memory");
}

__attribute__((target("avx512f"))) static void at_the_end_512(char *end) {
  __asm__ volatile("kmovw %1, %%k1\nvpternlogd $255, %%zmm0, %%zmm0, %%zmm0\nvmovdqu32 %%zmm0, -20(%0)%{%%k1%}" ::"r"(end), "r"(0x1f) : "xmm0", "memory");
}

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char *map = pm_map(directory, "file", 1 << 20);
  struct cursor cursor = {map, map + (1 << 20)};
  memset(map, 0x77, 1 << 20);
  sse(&cursor);
  if (cpu_has("avx2")) avx2(&cursor);
  char *reserved = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int fd = pm_open(directory, "page", 4096);
  char *page = mmap(reserved + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  check(page == reserved + 4096);
  if (cpu_has("avx2")) at_the_end(page + 4096);
  if (cpu_has("avx512f")) at_the_end_512(page + 4000 + 96);
  page[0] = 1;
  return 0;
}
