/* Two words that belong together are stored by one instruction. The processor makes that one step for other threads, but only words of 8
 * bytes persist as a whole. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <emmintrin.h>

struct span {
  uint64_t start, end;
} __attribute__((aligned(64)));

static void move_to(struct span *span, uint64_t start) {
  _mm_store_si128((__m128i *)span, _mm_set_epi64x((long long)start + 10, (long long)start)); // missing-store: recovery-failed
  PERSIST(*span); // expect: recovery-failed
}

int main(int argc, char **argv) {
  struct span *span = (struct span *)map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(span->end == 0 || span->end == span->start + 10);
    return 0;
  }
  for (uint64_t start = 1; start < 4; start++)
    move_to(span, start);
  return 0;
}
