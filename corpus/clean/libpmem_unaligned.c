/* Copies that begin and end inside of lines, one word at a time. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  uint64_t value = 1;
  pmem_memcpy_persist((char *)pm + 9, &value, sizeof value);
  pmem_memmove_persist((char *)pm + 130, &value, sizeof value);
  pmem_memset_persist((char *)pm + 200, 7, sizeof value);
  return pmem_unmap(pm, POOL_SIZE);
}
