/* The beginning of an operation is durable, and recovery ends what has begun. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

static __attribute__((noinline)) void operation(struct line *pm, uint64_t number) {
  SET(pm[1].word[0], number);
  SET(pm[2].word[0], number);
  SET(pm[3].word[0], number);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    if (pm[1].word[0] == pm[3].word[0] + 1)
      SET(pm[3].word[0], pm[1].word[0]);
    REQUIRE(pm[1].word[0] == pm[3].word[0]);
    return 0;
  }
  SET(pm[1].word[0], 0);
  for (uint64_t number = 1; number < 4; number++)
    operation(pm, number);
  return 0;
}
