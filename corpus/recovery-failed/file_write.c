/* A header is written with pwrite and synced before the data, which is stored through a mapping of the same file. */
// check: --model msync
// recover: {program} {dir}/pool check
#include "../recovery.h"

static int add(struct line *pm, int fd, uint64_t count) {
  uint64_t data = 10 * count;
  int failed = pwrite(fd, &count, 8, 0) != 8;
  failed |= fsync(fd); // expect: recovery-failed
  STORE(pm[64 + count].word[0], data); // missing-store: recovery-failed
  failed |= msync(pm, POOL_SIZE, MS_SYNC);
  return failed;
}

static int recover(const struct line *pm) {
  for (uint64_t number = 1; number <= pm->word[0]; number++)
    REQUIRE(pm[64 + number].word[0] == 10 * number);
  return 0;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2)
    return recover(pm);
  int fd = open(argv[1], O_RDWR), failed = 0;
  for (uint64_t count = 1; count < 4; count++)
    failed |= add(pm, fd, count);
  return failed;
}
