/* msync fails because its address is not that of a page. The program notices, and syncs the whole page instead. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t i = 1; i < 4; i++) {
    MOV(pm[i].word[0], i);
    if (msync(&pm[i], sizeof pm[i], MS_SYNC) != 0 && msync(pm, 4096, MS_SYNC) != 0)
      return 1;
  }
  return 0;
}
