/* A sum is durable before the number of its parts: recovery divides by zero. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct series {
  uint64_t count, sum;
};

static void add(struct series *series, uint64_t value) {
  SET(series->sum, series->sum + value); // expect: recovery-crashed
  SET(series->count, series->count + 1); // missing-store: recovery-crashed
}

static int recover(const struct series *series) {
  volatile uint64_t count = series->count;
  if (series->sum != 0)
    printf("%d on average\n", (int)(series->sum / count));
  return 0;
}

int main(int argc, char **argv) {
  struct series *series = (struct series *)map_pool(argv[1]);
  if (argc > 2)
    return recover(series);
  for (uint64_t value = 3; value < 6; value++)
    add(series, value);
  return 0;
}
