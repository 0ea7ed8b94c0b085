/* The kernel stores to persistent memory on the program's behalf: that must be flushed like any store. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  int ends[2];
  uint64_t value = 7;
  if (pipe(ends) != 0 || write(ends[1], &value, sizeof value) != sizeof value)
    return 1;
  ssize_t got = read(ends[0], &pm[0].word[1], sizeof value); // expect: missing-flush
  return got != sizeof value;
}
