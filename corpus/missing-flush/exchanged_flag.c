/* The flag of an undo log is set and cleared by xchg, as the atomic stores of C11 are. It looks like a lock, but is none. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct log {
  uint64_t valid, old;
};

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  struct log *log = (struct log *)&pm[0];
  STORE(log->old, pm[1].word[0]);
  PERSIST(*log);
  XCHG(log->valid, 1); // expect: missing-flush
  STORE(pm[1].word[0], 7);
  PERSIST(pm[1]);
  XCHG(log->valid, 0); // expect: missing-flush
  return 0;
}
