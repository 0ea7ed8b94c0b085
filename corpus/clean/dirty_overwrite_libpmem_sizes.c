/* Copies of all sizes and flags: what one call stores in pieces that overlap is stored once. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>
#include <string.h>

static const unsigned FLAGS[] = {0, PMEM_F_MEM_NONTEMPORAL, PMEM_F_MEM_TEMPORAL, PMEM_F_MEM_WC, PMEM_F_MEM_WB};

int main(int argc, char **argv) {
  char *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  unsigned char from[64];
  for (size_t size = 1; size <= sizeof from; size++)
    for (unsigned flags = 0; flags < 5; flags++) {
      char *line = pm + (size * 5 + flags) % POOL_LINES * 64;
      for (size_t at = 0; at < size; at++)
        from[at] = (unsigned char)(at * 7 + size + flags);
      pmem_memcpy(line, from, size, FLAGS[flags]);
      pmem_memmove(line + (64 - size), from, size, FLAGS[flags]);
      pmem_memset(line + (64 - size) / 2, (int)size, size, FLAGS[flags]);
      pmem_memcpy(line, from, size, FLAGS[flags] | PMEM_F_MEM_NODRAIN);
      pmem_drain();
      pmem_memcpy(line, from + size - 1, 1, PMEM_F_MEM_NOFLUSH);
      pmem_persist(line, 1);
    }
  return pmem_unmap(pm, POOL_SIZE);
}
