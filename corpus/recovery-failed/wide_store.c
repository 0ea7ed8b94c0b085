/* Two words that belong together are stored by one instruction to the copy that is in use. The processor makes that one step for other
 * threads, but only words of 8 bytes persist as a whole. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <emmintrin.h>

struct span {
  uint64_t start, end;
} __attribute__((aligned(64)));

struct pool {
  uint64_t used;
  struct span copies[2];
};

static void move_to(struct pool *pool, uint64_t start) {
  uint64_t next = pool->used;
  struct span *span = &pool->copies[next];
  _mm_store_si128((__m128i *)span, _mm_set_epi64x((long long)start + 10, (long long)start)); // missing-store: recovery-failed
  PERSIST(*span); // expect: recovery-failed
  SET(pool->used, next);
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  const struct span *span = &pool->copies[pool->used];
  if (argc > 2) {
    REQUIRE(span->end == 0 || span->end == span->start + 10);
    return 0;
  }
  for (uint64_t start = 1; start < 4; start++)
    move_to(pool, start);
  return 0;
}
