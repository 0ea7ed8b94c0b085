/* Two counters that must agree are changed one after the other, and nothing says how to make them agree again. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct counters {
  uint64_t sent, received;
};

static void count(struct counters *counters) {
  SET(counters->sent, counters->sent + 1); // expect: recovery-failed
  SET(counters->received, counters->received + 1); // missing-store: recovery-failed
}

static int recover(const struct counters *counters) {
  REQUIRE(counters->sent == counters->received);
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
