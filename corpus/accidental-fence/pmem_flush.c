/* pmem_flush without pmem_drain; a reference count comes to the rescue. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

static uint64_t references;

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (pm == NULL)
    return 1;
  STORE(pm[0].word[0], 1);
  pmem_flush(&pm[0].word[0], 8); // expect: accidental-fence
  LOCK_INC(references);
  _exit(0);
}
