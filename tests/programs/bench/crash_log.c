/* A log in a file of 64 MiB, to crash: each entry is persisted, then the count. As `crash_log check DIR` it is the
 * recovery, which verifies the entries for about ten milliseconds.
 *
 * @flags -O2 -lpmem
 */
#include <libpmem.h>
#include "pm/pm.h"

enum { SIZE = 64 << 20, ENTRIES = 4000, WORK = 5000000 };

struct log {
  uint64_t count;
  char pad[56];
  struct {
    uint64_t number, check;
    char text[48];
  } entry[];
};

static uint64_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  return x ^ x >> 33;
}

static int recover(const struct log *log) {
  uint64_t work = log->count;
  for (uint64_t i = 0; i < log->count; i++)
    if (log->entry[i].check != mixed(log->entry[i].number)) return 1;
  for (int i = 0; i < WORK; i++) work = mixed(work);
  return work == 1;
}

int main(int argc, char **argv) {
  struct log *log = (struct log *)pm_map(directory_of(argc, argv), "log", SIZE);
  if (argc > 2) return recover(log);
  for (uint64_t i = 0; i < ENTRIES; i++) {
    log->entry[i].number = i;
    log->entry[i].check = mixed(i);
    snprintf(log->entry[i].text, sizeof log->entry[i].text, "entry %lu", i);
    pmem_persist(&log->entry[i], sizeof log->entry[i]);
    log->count = i + 1;
    pmem_persist(&log->count, sizeof log->count);
  }
  return 0;
}
