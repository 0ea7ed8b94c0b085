/* pmem_persist behind a non-temporal store, where pmem_drain is enough. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  MOVNTI(pm[0].word[0], 1);
  pmem_persist(&pm[0].word[0], 8); // expect: flush-of-nt-store
  return pmem_unmap(pm, POOL_SIZE);
}
