/* A copy that is flushed but, as asked, not drained; the program ends before it drains. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  uint64_t value = 1;
  pmem_memcpy_nodrain(&pm[0].word[0], &value, sizeof value); // expect: missing-fence
  _exit(0);
}
