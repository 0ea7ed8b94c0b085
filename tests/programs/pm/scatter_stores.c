/* Scatters of all index and element sizes, with overlapping elements, partial masks, and places outside of the mapping. */
#include <immintrin.h>
#include "pm.h"

static char outside[1 << 17];

__attribute__((target("avx512f,avx512vl,avx512dq"))) static void scatter(char *base) {
  int near[16];
  long far[8];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 16; i++) near[i] = (int)(noise() % 3000);
    for (int i = 0; i < 8; i++) far[i] = (long)(noise() % 3000) - 500;
    if (round % 4 == 3) near[3] = near[9] = near[15], far[2] = far[5]; /* the last one wins */
    if (round % 4 == 2) far[1] = outside + 512 - base;                 /* another mapping altogether */
    __m512i index32 = _mm512_loadu_si512(near), index64 = _mm512_loadu_si512(far), data = _mm512_set_epi64((long)noise(), (long)noise(), (long)noise(), (long)noise(), (long)noise(), (long)noise(), (long)noise(), (long)noise());
    __mmask16 mask = round % 2 ? 0xffff : (__mmask16)noise();
    _mm512_mask_i32scatter_epi32(base, mask, index32, data, 4);
    _mm512_mask_i32scatter_epi64(base + 16384, (__mmask8)mask, _mm512_castsi512_si256(index32), data, 8);
    _mm512_mask_i64scatter_epi64(base, (__mmask8)mask, index64, data, 1);
    _mm512_mask_i64scatter_epi32(base + 1000, (__mmask8)mask, index64, _mm512_castsi512_si256(data), 1);
    _mm512_mask_i32scatter_ps(base + 32768, mask, index32, _mm512_castsi512_ps(data), 2);
    _mm512_mask_i32scatter_pd(base + 40960, (__mmask8)mask, _mm512_castsi512_si256(index32), _mm512_castsi512_pd(data), 1);
    _mm512_mask_i64scatter_ps(base + 2, (__mmask8)mask, index64, _mm512_castps512_ps256(_mm512_castsi512_ps(data)), 1);
    _mm512_mask_i64scatter_pd(base + 3, (__mmask8)mask, index64, _mm512_castsi512_pd(data), 1);
    _mm256_mask_i32scatter_epi32(base + 50000, (__mmask8)mask, _mm512_castsi512_si256(index32), _mm512_castsi512_si256(data), 4);
    _mm_mask_i64scatter_epi64(base + 60000, (__mmask8)mask, _mm512_castsi512_si128(index64), _mm512_castsi512_si128(data), 1);
    base += 1024;
  }
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  map[0] = 1;
  if (cpu_has("avx512vl") && cpu_has("avx512dq")) scatter(map + 4096);
  return 0;
}
