/* Two halves of a word are written by one store, so that there is nothing between them: 8 bytes persist as a whole. */
// check: --granularity store
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void set(struct line *pm, uint64_t value) {
  STORE(pm->word[0], value << 32 | value);
  PERSIST(*pm);
}

static int recover(const struct line *pm) {
  REQUIRE(pm->word[0] >> 32 == (pm->word[0] & 0xffffffff));
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
