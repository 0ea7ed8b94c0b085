/* A copy with the flag that tells libpmem not to flush; nothing flushes it later. */
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
  pmem_memcpy(&pm[1].word[0], &value, sizeof value, PMEM_F_MEM_NOFLUSH); // expect: transient-data
  return pmem_unmap(pm, POOL_SIZE);
}
