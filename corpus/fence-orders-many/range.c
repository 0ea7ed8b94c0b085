/* pmem_persist of a range of three lines. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  for (int i = 0; i < 3; i++)
    STORE(pm[i].word[0], i + 1);
  pmem_persist(pm, 3 * 64); // expect: fence-orders-many
  return pmem_unmap(pm, POOL_SIZE);
}
