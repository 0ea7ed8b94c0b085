/* A pointer and its length are stored by one instruction of 16 bytes to the slot that is not in use, and a store of 8 bytes then
 * selects that slot. */
// check: --strategy exhaustive --tearing words
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <emmintrin.h>

struct extent {
  uint64_t start;
  uint64_t length;
} __attribute__((aligned(64)));

struct pool {
  struct extent slots[2];
  uint64_t used;
};

static void set(struct pool *pool, uint64_t start, uint64_t length) {
  struct extent *extent = &pool->slots[!pool->used];
  __m128i both = _mm_set_epi64x((int64_t)length, (int64_t)start);
  __asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)extent) : "x"(both) : "memory");
  PERSIST(*extent);
  SET(pool->used, !pool->used);
}

static int recover(const struct pool *pool) {
  const struct extent *extent = &pool->slots[pool->used & 1];
  REQUIRE(extent->start + extent->length <= 4096);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  set(pool, 0, 4096);
  set(pool, 4000, 96);
  set(pool, 1, 1);
  return 0;
}
