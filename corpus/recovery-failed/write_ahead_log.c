/* A count in a mapped file, and a log beside it that is written with system calls before the count. The program is right, but recovery
 * finds the log as it was in the end: its failure is a warning, and the run shows nothing. */
// args: {dir}/pool {dir}/log
// recover: {program} {dir}/pool {dir}/log check
// exit: 3
#include "../recovery.h"

static int append(struct line *pm, int log, uint64_t count) {
  int failed = pwrite(log, &count, 8, 8 * (off_t)count) != 8;
  failed |= fsync(log);
  SET(pm->word[0], count + 1); // expect: recovery-failed // missing-store: recovery-failed
  return failed;
}

static int recover(const struct line *pm, int log) {
  uint64_t logged = (uint64_t)lseek(log, 0, SEEK_END) / 8;
  REQUIRE(logged == pm->word[0] || logged == pm->word[0] + 1);
  return 0;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  int log = open(argv[2], O_RDWR | O_CREAT, 0600), failed = log < 0;
  if (argc > 3)
    return recover(pm, log);
  for (uint64_t count = 0; count < 4; count++)
    failed |= append(pm, log, count);
  return failed;
}
