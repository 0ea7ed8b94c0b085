/* pmem_persist drains; pmem_drain does it again. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  STORE(pm[0].word[0], 1);
  pmem_persist(&pm[0].word[0], 8);
  pmem_drain(); // expect: redundant-fence
  return pmem_unmap(pm, POOL_SIZE);
}
