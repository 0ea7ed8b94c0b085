/* One instruction stores to two lines; the part in the second is not flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <emmintrin.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[1].word[4], 1);
  PERSIST(pm[1]);
  _mm_storeu_si128((__m128i *)&pm[0].word[7], _mm_set1_epi8(7)); // expect: missing-flush
  PERSIST(pm[0]);
  return 0;
}
