/* The length of a message is durable before the kernel has put the message behind it. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <string.h>

static const char MESSAGE[64] = "as it came";

static int receive(struct line *pm, int from) {
  SET(pm[0].word[0], sizeof MESSAGE); // expect: recovery-failed
  int got = read(from, &pm[1], sizeof MESSAGE); // missing-store: recovery-failed
  PERSIST(pm[1]);
  return got != sizeof MESSAGE;
}

static int recover(const struct line *pm) {
  REQUIRE(memcmp(&pm[1], MESSAGE, pm[0].word[0]) == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  int ends[2];
  if (argc > 2)
    return recover(pm);
  if (pipe(ends) != 0 || write(ends[1], MESSAGE, sizeof MESSAGE) != sizeof MESSAGE)
    return 1;
  return receive(pm, ends[0]);
}
