/* Two mistakes: the beginning of an operation is never flushed, and nothing repairs one that has begun and not ended. The
 * flush would not help with the second: recovery fails with the beginning there. */
// recover: {program} {dir}/pool check
// check: --strategy prefix
// causes: 2
#include "../recovery.h"

static __attribute__((noinline)) void operation(struct line *pm, uint64_t number) {
  STORE(pm[1].word[0], number); // expect: missing-flush
  SET(pm[2].word[0], number);   // expect: recovery-failed
  SET(pm[3].word[0], number);   // missing-store: recovery-failed
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(pm[1].word[0] == pm[3].word[0]);
    return 0;
  }
  SET(pm[1].word[0], 0);
  for (uint64_t number = 1; number < 4; number++)
    operation(pm, number);
  return 0;
}
