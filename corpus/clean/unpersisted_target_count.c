/* Counters reach the values of offsets at which records lie. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t used = 64; used < 1024; used += 64) {
    STORE(pm[0].word[0], used);
    PERSIST(pm[0]);
    STORE(pm[used / 64].word[0], used);
    PERSIST(pm[used / 64]);
  }
  return 0;
}
