/* The calls of pmem_persist are in the wrong order. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  STORE(pm[0].word[0], 1); // expect: delayed-persist
  STORE(pm[1].word[0], 2);
  pmem_persist(&pm[1].word[0], 8);
  pmem_persist(&pm[0].word[0], 8);
  return pmem_unmap(pm, POOL_SIZE);
}
