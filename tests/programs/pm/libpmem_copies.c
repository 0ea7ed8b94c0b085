/* libpmem: copies, moves and fills with every flag, persist, flush, drain and deep variants.
 *
 * @flags -lpmem
 */
#include <libpmem.h>
#include "pm.h"

int main(int argc, char **argv) {
  static const unsigned flags[] = {0, PMEM_F_MEM_NODRAIN, PMEM_F_MEM_NOFLUSH, PMEM_F_MEM_NONTEMPORAL, PMEM_F_MEM_TEMPORAL, PMEM_F_MEM_WC, PMEM_F_MEM_WB, PMEM_F_MEM_NONTEMPORAL | PMEM_F_MEM_NODRAIN};
  static const size_t lengths[] = {1, 7, 8, 31, 63, 64, 65, 128, 200, 511, 1000, 4096, 20000};
  char path[4096], *source = malloc(32768);
  size_t size;
  int is_pmem;
  snprintf(path, sizeof path, "%s/file", directory_of(argc, argv));
  char *map = pmem_map_file(path, 16 << 20, PMEM_FILE_CREATE | PMEM_FILE_EXCL, 0600, &size, &is_pmem);
  check(map && size == 16 << 20 && is_pmem);
  for (int i = 0; i < 32768; i++) source[i] = (char)noise();
  char *at = map + 5;
  for (unsigned f = 0; f < sizeof flags / sizeof *flags; f++)
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
      size_t length = lengths[l];
      pmem_memcpy(at, source + l, length, flags[f]);
      pmem_memmove(at + length / 3, at, length, flags[f]);
      pmem_memset(at + 2 * length, (int)noise(), length, flags[f]);
      at += 3 * length + 64 + l;
    }
  pmem_memcpy_persist(at, source, 3000);
  pmem_memcpy_nodrain(at + 3000, source, 3000);
  pmem_memmove_persist(at + 100, at, 5000);
  pmem_memmove_nodrain(at, at + 100, 5000);
  pmem_memset_persist(at + 9000, 'p', 777);
  pmem_memset_nodrain(at + 9900, 'n', 777);
  pmem_drain();
  strcpy(at + 20000, "persisted");
  pmem_persist(at + 20000, 10);
  strcpy(at + 20100, "flushed");
  pmem_flush(at + 20100, 8);
  pmem_drain();
  strcpy(at + 20200, "deep");
  check(pmem_deep_persist(at + 20200, 5) == 0 || errno);
  pmem_deep_flush(at + 20200, 5);
  pmem_deep_drain(at + 20200, 5);
  check(pmem_msync(at, 100) == 0 && pmem_unmap(map, size) == 0);
  return 0;
}
