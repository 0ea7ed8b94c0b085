/* Two words are written by one store, so that there is nothing between them. */
// check: --granularity store
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void set(struct line *pm, uint64_t value) {
  const uint64_t pair[2] __attribute__((aligned(16))) = {value, value};
  __asm__ volatile("movaps %1, %%xmm0\n movaps %%xmm0, %0" : "=m"(*pm) : "m"(pair) : "xmm0", "memory");
  PERSIST(*pm);
}

static int recover(const struct line *pm) {
  REQUIRE(pm->word[0] == pm->word[1]);
  return 0;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2)
    return recover(pm);
  for (uint64_t value = 1; value < 4; value++)
    set(pm, value);
  return 0;
}
