/* libpmem in a loop: a log of records appended with pmem_memcpy_persist, an index of words stored and persisted.
 *
 * @flags -lpmem
 */
#include <libpmem.h>
#include "pm/pm.h"

int main(int argc, char **argv) {
  enum { SIZE = 64 << 20, RECORDS = 400000, LOG = 48 << 20 };
  char path[4096];
  size_t size;
  int is_pmem;
  snprintf(path, sizeof path, "%s/file", directory_of(argc, argv));
  char *map = pmem_map_file(path, SIZE, PMEM_FILE_CREATE, 0600, &size, &is_pmem);
  check(map);
  uint64_t *index = (uint64_t *)(map + LOG), record[32];
  size_t at = 0;
  for (int i = 0; i < RECORDS; i++) {
    for (int n = 0; n < 32; n++) record[n] = noise();
    size_t length = 32 + record[0] % 192;
    if (at + length > LOG) at = 0;
    pmem_memcpy_persist(map + at, record, length);
    uint64_t *slot = &index[record[1] % ((SIZE - LOG) / 8)];
    *slot = at;
    pmem_persist(slot, sizeof *slot);
    at += length;
  }
  pmem_unmap(map, size);
  return 0;
}
