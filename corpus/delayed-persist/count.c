/* A count of bytes has the value of an offset at which something else was stored some time before. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[2].word[0], 1); // expect: delayed-persist
  STORE(pm[2].word[1], 2); // expect: delayed-persist
  for (uint64_t used = 8; used <= 2 * sizeof *pm; used += 8) {
    STORE(pm[0].word[0], used);
    PERSIST(pm[0]);
  }
  FLUSH(pm[2]); // expect: flush-covers-many
  FENCE();
  return 0;
}
