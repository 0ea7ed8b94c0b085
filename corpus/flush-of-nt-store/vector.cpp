/* A vector is streamed to a line, which is then flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <emmintrin.h>

int main(int argc, char **argv) {
  line *pm = map_pool(argv[1]);
  _mm_stream_si128(reinterpret_cast<__m128i *>(&pm[0]), _mm_set1_epi8(1));
  FLUSH(pm[0]); // expect: flush-of-nt-store
  _mm_sfence();
  return 0;
}
