/* pmem_persist of a structure on the heap. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

int main(int argc, char **argv) {
  struct line *pm = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  struct line *copy = calloc(1, sizeof *copy);
  if (pm == NULL || copy == NULL)
    return 1;
  STORE(copy->word[0], 1);
  pmem_persist(&copy->word[0], 8); // expect: flush-volatile
  STORE(pm[0].word[0], copy->word[0]);
  pmem_persist(&pm[0].word[0], 8);
  free(copy);
  return pmem_unmap(pm, POOL_SIZE);
}
