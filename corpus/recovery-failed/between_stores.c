/* Two words share a line and a flush. A crash between the two stores can leave the first without the second: only a
 * failure point at each store shows it. */
// check: --granularity store
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void set(struct line *pm, uint64_t value) {
  STORE(pm->word[0], value);
  STORE(pm->word[1], value); // expect: recovery-failed // missing-store: recovery-failed
  PERSIST(*pm); // expect: flush-covers-many
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
