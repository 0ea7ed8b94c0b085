/* The commit-store pattern, to explore: each entry is persisted, then the count, as often as the first argument says. As
 * `commit_log check DIR` it is the recovery, which reads the count and the last entry that it covers: one behaviour for each count.
 *
 * @flags -O2 -lpmem
 */
#include <libpmem.h>
#include "pm/pm.h"

enum { MOST = 1 << 14 };

struct log {
  uint64_t count;
  char pad[56];
  struct {
    uint64_t number, check;
    char pad[48];
  } entry[MOST];
};

static int recover(const struct log *log) {
  uint64_t count = log->count;
  return count > MOST || (count > 0 && log->entry[count - 1].check != ~log->entry[count - 1].number);
}

int main(int argc, char **argv) {
  check(argc > 2);
  struct log *log = (struct log *)pm_map(directory_of(argc, argv), "log", sizeof *log);
  if (!strcmp(argv[1], "check")) return recover(log);
  uint64_t entries = strtoul(argv[1], NULL, 10);
  check(entries <= MOST);
  for (uint64_t i = 0; i < entries; i++) {
    log->entry[i].number = i + 1;
    log->entry[i].check = ~(i + 1);
    pmem_persist(&log->entry[i], sizeof log->entry[i]);
    log->count = i + 1;
    pmem_persist(&log->count, sizeof log->count);
  }
  return 0;
}
