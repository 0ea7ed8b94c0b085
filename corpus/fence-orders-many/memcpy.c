/* A page is copied with non-temporal stores, and one fence waits for all of them. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  static char page[4096] = "content";
  pmem_memcpy_persist(pm, page, sizeof page); // expect: fence-orders-many
  return pmem_unmap(pm, POOL_SIZE);
}
