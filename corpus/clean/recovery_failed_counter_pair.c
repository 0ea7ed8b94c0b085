/* Two counters that must agree are halves of one word, which changes as a whole. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct counters {
  uint64_t both;
};

static void count(struct counters *counters) {
  SET(counters->both, counters->both + (1ull << 32) + 1);
}

static int recover(const struct counters *counters) {
  REQUIRE(counters->both >> 32 == (uint32_t)counters->both);
  return 0;
}

int main(int argc, char **argv) {
  struct counters *counters = (struct counters *)map_pool(argv[1]);
  if (argc > 2)
    return recover(counters);
  for (int i = 0; i < 5; i++)
    count(counters);
  return 0;
}
