/* pmem_persist of a small structure with two changed fields. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  STORE(pm[0].word[0], 1);
  STORE(pm[0].word[1], 2);
  pmem_persist(&pm[0].word[0], 16); // expect: flush-covers-many
  return pmem_unmap(pm, POOL_SIZE);
}
