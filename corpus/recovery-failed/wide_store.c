/* A pointer and its length are stored by one instruction of 16 bytes, which the CPU may split: only 8 bytes persist together. */
// check: --strategy exhaustive --tearing words
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <emmintrin.h>

struct extent {
  uint64_t start;
  uint64_t length;
} __attribute__((aligned(64)));

static void set(struct extent *extent, uint64_t start, uint64_t length) {
  __m128i both = _mm_set_epi64x((int64_t)length, (int64_t)start);
  __asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)extent) : "x"(both) : "memory"); // missing-store: recovery-failed
  PERSIST(*extent); // expect: recovery-failed
}

static int recover(const struct extent *extent) {
  REQUIRE(extent->start + extent->length <= 4096);
  return 0;
}

int main(int argc, char **argv) {
  struct extent *extent = (struct extent *)map_pool(argv[1]);
  if (argc > 2)
    return recover(extent);
  set(extent, 0, 4096);
  set(extent, 4000, 96);
  return 0;
}
