/* SSE and AVX stores: whole, half and scalar, aligned and not, extracts and conversions. */
#include "pm.h"

#define AVX_NOISE "vinsertf128 $1, %%xmm1, %%ymm0, %%ymm0\nvinsertf128 $1, %%xmm0, %%ymm2, %%ymm2\n"

static void sse(struct cursor *cursor) {
  form(cursor, "movups %%xmm0, (%%rdi)") form(cursor, "movupd %%xmm1, (%%rdi)") form(cursor, "movdqu %%xmm2, (%%rdi)");
  aligned_form(cursor, "movaps %%xmm0, (%%rdi)") aligned_form(cursor, "movapd %%xmm1, (%%rdi)") aligned_form(cursor, "movdqa %%xmm2, (%%rdi)");
  form(cursor, "movss %%xmm0, (%%rdi)") form(cursor, "movsd %%xmm0, (%%rdi)") form(cursor, "movd %%xmm0, (%%rdi)") form(cursor, "movq %%xmm0, (%%rdi)");
  form(cursor, "movlps %%xmm0, (%%rdi)") form(cursor, "movhps %%xmm0, (%%rdi)") form(cursor, "movlpd %%xmm0, (%%rdi)") form(cursor, "movhpd %%xmm0, (%%rdi)");
  form(cursor, "movq %%rax, %%mm0\nmovq %%mm0, (%%rdi)\nmovd %%mm0, 8(%%rdi)\nemms") form(cursor, "stmxcsr (%%rdi)");
}

static void sse4(struct cursor *cursor) {
  form(cursor, "pextrb $5, %%xmm0, (%%rdi)") form(cursor, "pextrw $3, %%xmm0, (%%rdi)") form(cursor, "pextrd $1, %%xmm0, (%%rdi)");
  form(cursor, "pextrq $1, %%xmm0, (%%rdi)") form(cursor, "extractps $2, %%xmm0, (%%rdi)");
}

static void avx(struct cursor *cursor) {
  form(cursor, AVX_NOISE "vmovups %%ymm0, (%%rdi)") form(cursor, AVX_NOISE "vmovdqu %%ymm2, (%%rdi)\nvmovupd %%xmm0, 40(%%rdi)");
  aligned_form(cursor, AVX_NOISE "vmovaps %%ymm0, (%%rdi)") aligned_form(cursor, AVX_NOISE "vmovdqa %%ymm0, (%%rdi)\nvmovapd %%xmm2, 32(%%rdi)");
  form(cursor, "vmovss %%xmm0, (%%rdi)") form(cursor, "vmovsd %%xmm0, (%%rdi)") form(cursor, "vmovd %%xmm0, (%%rdi)\nvmovq %%xmm1, 4(%%rdi)");
  form(cursor, "vmovlps %%xmm0, (%%rdi)\nvmovhps %%xmm0, 9(%%rdi)") form(cursor, "vmovlpd %%xmm0, (%%rdi)\nvmovhpd %%xmm0, 9(%%rdi)");
  form(cursor, AVX_NOISE "vextractf128 $1, %%ymm0, (%%rdi)") form(cursor, "vpextrb $7, %%xmm0, (%%rdi)\nvpextrw $2, %%xmm0, 1(%%rdi)\nvpextrd $3, %%xmm0, 3(%%rdi)\nvpextrq $0, %%xmm0, 7(%%rdi)");
  form(cursor, "vextractps $1, %%xmm0, (%%rdi)\nvstmxcsr 4(%%rdi)");
  __asm__ volatile("vzeroupper" ::: "memory");
}

static void avx2(struct cursor *cursor) {
  form(cursor, AVX_NOISE "vextracti128 $1, %%ymm0, (%%rdi)\nvextracti128 $0, %%ymm2, 16(%%rdi)\nvzeroupper");
}

static void f16c(struct cursor *cursor) {
  form(cursor, "mov $0x3fc00000, %%eax\nvmovd %%eax, %%xmm0\nvpbroadcastd %%xmm0, %%ymm0\nvcvtps2ph $0, %%ymm0, (%%rdi)\nvcvtps2ph $0, %%xmm0, 20(%%rdi)\nvzeroupper");
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 4 << 20);
  struct cursor cursor = {map, map + (4 << 20)};
  sse(&cursor);
  if (cpu_has("sse4.1")) sse4(&cursor);
  if (cpu_has("avx")) avx(&cursor);
  if (cpu_has("avx2")) avx2(&cursor);
  if (cpu_has("f16c") && cpu_has("avx2")) f16c(&cursor);
  return 0;
}
