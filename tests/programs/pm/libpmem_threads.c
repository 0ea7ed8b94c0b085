/* libpmem from four threads: copies with and without the cache, to the same and to neighbouring lines.
 *
 * @threaded
 * @flags -lpmem
 */
#include <libpmem.h>
#include "racing.h"

static char *map;

static void work(int number, uint64_t *random) {
  static const unsigned flags[] = {0, PMEM_F_MEM_NONTEMPORAL, PMEM_F_MEM_TEMPORAL, PMEM_F_MEM_NODRAIN};
  char source[1024];
  memset(source, 'a' + number, sizeof source);
  for (int i = 0; i < 300; i++) {
    uint64_t value = next_random(random);
    pmem_memcpy(map + (value & 2047), source, value >> 20 & 1023, flags[value >> 40 & 3]);
    pmem_memset_persist(map + 4096 + number * 8, (int)value, 8);
  }
}

int main(int argc, char **argv) {
  char path[4096];
  size_t size;
  int is_pmem;
  snprintf(path, sizeof path, "%s/file", directory_of(argc, argv));
  map = pmem_map_file(path, 1 << 16, PMEM_FILE_CREATE, 0600, &size, &is_pmem);
  check(map);
  race(4, work);
  return 0;
}
