/* Vector, masked, non-temporal and scattered stores by four threads to the same lines.
 *
 * @threaded
 */
#include <immintrin.h>
#include "racing.h"

static char *map;
static int has_avx2, has_avx512;

__attribute__((target("avx2"))) static void wide(char *at, uint64_t value) {
  __m256i data = _mm256_set1_epi64x((long long)value), mask = _mm256_set1_epi64x((long long)(value * 3));
  if (value >> 50 & 1) _mm256_storeu_si256((void *)at, data);
  else _mm256_maskstore_epi32((int *)at, mask, data);
}

__attribute__((target("avx512f"))) static void widest(char *at, uint64_t value) {
  __m512i data = _mm512_set1_epi64((long long)value), index = _mm512_set_epi64(9, 8, 100, 200, 300, 4, 1, 0);
  if (value >> 50 & 1) _mm512_mask_storeu_epi32(at, (__mmask16)value, data);
  else _mm512_mask_i64scatter_epi64(at, (__mmask8)value, index, data, 1);
}

static void work(int number, uint64_t *random) {
  for (int i = 0; i < 1500; i++) {
    uint64_t value = next_random(random);
    char *at = map + (value & 511);
    switch ((i + number) % 5) {
      case 0: _mm_storeu_si128((void *)at, _mm_set1_epi64x((long long)value)); break;
      case 1: _mm_stream_si64((long long *)at, (long long)value); break;
      case 2: if (has_avx2) wide(at, value); break;
      case 3: if (has_avx512) widest(at, value); break;
      case 4: *(volatile uint32_t *)at = (uint32_t)value; break;
    }
    if (i % 10 == 0) _mm_sfence();
  }
}

int main(int argc, char **argv) {
  has_avx2 = cpu_has("avx2");
  has_avx512 = cpu_has("avx512f");
  map = pm_map(directory_of(argc, argv), "file", 4096);
  race(4, work);
  return 0;
}
