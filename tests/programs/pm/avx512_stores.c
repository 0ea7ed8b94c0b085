/* AVX-512 stores: whole and masked, merging, compressing, narrowing, extracting, from high registers and mask registers. */
#include "pm.h"

#define ZMM_NOISE "vinserti64x2 $1, %%xmm1, %%zmm0, %%zmm16\nvinserti64x2 $2, %%xmm2, %%zmm16, %%zmm16\nvinserti64x2 $3, %%xmm3, %%zmm16, %%zmm16\nvmovdqa64 %%zmm16, %%zmm1\nkmovq %%rax, %%k1\nkmovq %%rdx, %%k2\n"

static void whole(struct cursor *cursor) {
  form(cursor, ZMM_NOISE "vmovups %%zmm16, (%%rdi)") form(cursor, ZMM_NOISE "vmovdqu64 %%zmm1, (%%rdi)\nvmovdqu32 %%ymm16, 70(%%rdi)\nvmovdqu8 %%xmm16, 110(%%rdi)");
  aligned_form(cursor, ZMM_NOISE "vmovaps %%zmm16, (%%rdi)") aligned_form(cursor, ZMM_NOISE "vmovdqa64 %%zmm1, (%%rdi)") aligned_form(cursor, ZMM_NOISE "vmovdqa32 %%ymm16, (%%rdi)\nvmovapd %%xmm16, 32(%%rdi)");
  form(cursor, ZMM_NOISE "vextracti64x4 $1, %%zmm16, (%%rdi)\nvextractf32x4 $3, %%zmm16, 40(%%rdi)\nvextracti32x8 $0, %%zmm1, 60(%%rdi)\nvextractf64x2 $2, %%zmm1, 100(%%rdi)");
  form(cursor, ZMM_NOISE "kmovb %%k1, (%%rdi)\nkmovw %%k1, 1(%%rdi)\nkmovd %%k2, 3(%%rdi)\nkmovq %%k2, 7(%%rdi)");
  form(cursor, ZMM_NOISE "vmovss %%xmm16, (%%rdi)\nvmovsd %%xmm16, 4(%%rdi)\nvmovd %%xmm16, 12(%%rdi)\nvpextrb $3, %%xmm16, 16(%%rdi)\nvmovhps %%xmm16, 17(%%rdi)");
}

static void masked(struct cursor *cursor) {
  form(cursor, ZMM_NOISE "vmovups %%zmm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vmovupd %%zmm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vmovdqu8 %%zmm16, (%%rdi)%{%%k1%}");
  form(cursor, ZMM_NOISE "vmovdqu16 %%zmm16, (%%rdi)%{%%k2%}") form(cursor, ZMM_NOISE "vmovdqu32 %%ymm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vmovdqu64 %%xmm16, (%%rdi)%{%%k1%}");
  aligned_form(cursor, ZMM_NOISE "vmovaps %%zmm16, (%%rdi)%{%%k1%}") aligned_form(cursor, ZMM_NOISE "vmovdqa64 %%zmm16, (%%rdi)%{%%k2%}");
  form(cursor, ZMM_NOISE "vmovss %%xmm16, (%%rdi)%{%%k1%}\nvmovsd %%xmm16, 8(%%rdi)%{%%k2%}") form(cursor, ZMM_NOISE "kxorq %%k1, %%k1, %%k1\nvmovups %%zmm16, (%%rdi)%{%%k1%}");
  form(cursor, ZMM_NOISE "vpcompressd %%zmm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vpcompressq %%zmm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vcompressps %%ymm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vcompresspd %%xmm16, (%%rdi)%{%%k2%}");
  form(cursor, ZMM_NOISE "vpmovqb %%zmm16, (%%rdi)\nvpmovqw %%zmm16, 10(%%rdi)\nvpmovqd %%zmm16, 30(%%rdi)\nvpmovdb %%zmm16, 70(%%rdi)\nvpmovdw %%zmm16, 90(%%rdi)\nvpmovwb %%zmm16, 130(%%rdi)");
  form(cursor, ZMM_NOISE "vpmovqb %%zmm16, (%%rdi)%{%%k1%}\nvpmovsdb %%ymm16, 10(%%rdi)%{%%k2%}\nvpmovusdw %%zmm16, 30(%%rdi)%{%%k1%}\nvpmovwb %%ymm16, 70(%%rdi)%{%%k2%}");
  form(cursor, ZMM_NOISE "vextracti64x4 $1, %%zmm16, (%%rdi)%{%%k1%}\nvextractf32x4 $2, %%zmm16, 40(%%rdi)%{%%k2%}\nvcvtps2ph $0, %%zmm16, 60(%%rdi)%{%%k1%}");
}

static void bytes_compressed(struct cursor *cursor) {
  form(cursor, ZMM_NOISE "vpcompressb %%zmm16, (%%rdi)%{%%k1%}") form(cursor, ZMM_NOISE "vpcompressw %%ymm16, (%%rdi)%{%%k2%}");
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 4 << 20);
  struct cursor cursor = {map, map + (4 << 20)};
  map[0] = 1;
  if (cpu_has("avx512bw") && cpu_has("avx512vl") && cpu_has("avx512dq")) {
    whole(&cursor);
    masked(&cursor);
    if (cpu_has("avx512vbmi2")) bytes_compressed(&cursor);
  }
  return 0;
}
