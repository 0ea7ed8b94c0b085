/* Non-temporal and direct stores: movnti, movntq, movntdq, movntps, movntpd, their wide forms, movdiri, movdir64b; clzero. */
#include "pm.h"

static void sse(struct cursor *cursor) {
  form(cursor, "movntil %%eax, (%%rdi)\nmovntiq %%rdx, 4(%%rdi)\nsfence") form(cursor, "movq %%rax, %%mm0\nmovntq %%mm0, (%%rdi)\nemms\nsfence");
  aligned_form(cursor, "movntdq %%xmm0, (%%rdi)\nmovntps %%xmm1, 16(%%rdi)\nmovntpd %%xmm2, 32(%%rdi)\nsfence");
}

static void avx(struct cursor *cursor) {
  aligned_form(cursor, "vinsertf128 $1, %%xmm1, %%ymm0, %%ymm0\nvmovntdq %%ymm0, (%%rdi)\nvmovntps %%ymm0, 32(%%rdi)\nvmovntpd %%ymm0, 64(%%rdi)\nvmovntdq %%xmm2, 96(%%rdi)\nvzeroupper\nsfence");
}

static void avx512(struct cursor *cursor) {
  aligned_form(cursor, "vinserti64x2 $1, %%xmm1, %%zmm0, %%zmm16\nvinserti64x2 $3, %%xmm2, %%zmm16, %%zmm16\nvmovntdq %%zmm16, (%%rdi)\nvmovntps %%zmm16, 64(%%rdi)\nvmovntpd %%zmm16, 128(%%rdi)\nsfence");
}

static void direct(struct cursor *cursor) {
  form(cursor, "movdiri %%eax, (%%rdi)\nmovdiri %%rdx, 4(%%rdi)\nsfence");
}

static void direct_line(struct cursor *cursor) {
  static char source[100] __attribute__((aligned(64)));
  for (int i = 0; i < 8; i++) {
    for (int n = 0; n < 100; n++) source[n] = (char)noise();
    char *at = place(cursor, 0);
    __asm__ volatile("movdir64b (%1), %0" ::"r"(at), "r"(source + i) : "memory");
    __asm__ volatile("movdir64b 1(%1), %0\nsfence" ::"r"(at + 64), "r"(at) : "memory"); /* from persistent memory */
  }
}

static void zeroed_line(struct cursor *cursor) {
  for (int i = 0; i < 64; i += 9) {
    char *at = place(cursor, 0);
    memset(at, 0x5a, 192);
    __asm__ volatile("clzero\nsfence" ::"a"(at + 64 + i) : "memory");
  }
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  struct cursor cursor = {map, map + (1 << 20)};
  sse(&cursor);
  if (cpu_has("avx")) avx(&cursor);
  if (cpu_has("avx512vl") && cpu_has("avx512dq")) avx512(&cursor);
  if (cpu_has("movdiri")) direct(&cursor);
  if (cpu_has("movdir64b")) direct_line(&cursor);
  if (cpu_has("clzero")) zeroed_line(&cursor);
  return 0;
}
