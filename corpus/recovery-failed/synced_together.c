/* One msync writes back the page with a count and the page with the record that it counts: the kernel may write either first. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { PAGE_LINES = 64 };

static int add(struct line *pm, uint64_t at) {
  STORE(pm[PAGE_LINES + at].word[0], at + 40); // missing-store: recovery-failed
  STORE(pm[0].word[0], at + 1);
  return msync(pm, 2 * 4096, MS_SYNC); // expect: recovery-failed
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < pm[0].word[0]; at++)
      REQUIRE(pm[PAGE_LINES + at].word[0] == at + 40);
    return 0;
  }
  int failed = 0;
  for (uint64_t at = 0; at < 3; at++)
    failed |= add(pm, at);
  return failed;
}
