/* One store to two lines, and both are flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <emmintrin.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  _mm_storeu_si128((__m128i *)&pm[0].word[7], _mm_set1_epi8(7));
  PERSIST(pm[0]);
  PERSIST(pm[1]);
  return 0;
}
