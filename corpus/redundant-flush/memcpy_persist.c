/* pmem_memcpy_persist has made the copy durable; pmem_persist does it again. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  uint64_t value = 1;
  pmem_memcpy_persist(&pm[0].word[0], &value, sizeof value);
  pmem_persist(&pm[0].word[0], sizeof value); // expect: redundant-flush
  return pmem_unmap(pm, POOL_SIZE);
}
