/* One msync writes back two records on two pages, and another one the page with the count: until then recovery ignores them. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { PAGE_LINES = 64 };

static int add_pair(struct line *pm, uint64_t at) {
  STORE(pm[PAGE_LINES + at].word[0], at + 40);
  STORE(pm[2 * PAGE_LINES + at].word[0], at + 40);
  int failed = msync(pm + PAGE_LINES, 2 * 4096, MS_SYNC);
  STORE(pm[0].word[0], at + 1);
  return failed | msync(pm, 4096, MS_SYNC);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < pm[0].word[0]; at++)
      REQUIRE(pm[PAGE_LINES + at].word[0] == at + 40 && pm[2 * PAGE_LINES + at].word[0] == at + 40);
    return 0;
  }
  int failed = 0;
  for (uint64_t at = 0; at < 3; at++)
    failed |= add_pair(pm, at);
  return failed;
}
