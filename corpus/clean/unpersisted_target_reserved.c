/* The place of the next record is announced before the record is written: recovery expects nothing there yet. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct log {
  struct line *next;
  char gap[56];
  struct line records[8];
};

int main(int argc, char **argv) {
  struct log *log = (struct log *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 4; i++) {
    STORE(log->next, &log->records[i]);
    PERSIST(log->next);
    STORE(log->records[i].word[0], i + 1);
    PERSIST(log->records[i]);
  }
  return 0;
}
