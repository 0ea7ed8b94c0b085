/* The program flushes with libpmem and forgets to drain. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pm->word[0] = 1;
  pmem_flush(&pm->word[0], 8);
  // repair: pmem_drain();
  return 0;
}
