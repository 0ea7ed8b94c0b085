/* Durability by msync: no flush is missing. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t i = 1; i < 4; i++) {
    STORE(pm[0].word[0], i);
    if (msync(pm, 4096, MS_SYNC) != 0)
      return 1;
  }
  return 0;
}
