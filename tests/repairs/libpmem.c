/* libpmem has its own functions. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pm->word[0] = 1;
  pmem_persist(&pm->word[0], 8);
  pm->word[0] = 2;
  // repair: pmem_persist(&pm->word[0], 8);
  return 0;
}
