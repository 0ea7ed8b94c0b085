/* The commit of a transaction makes its ranges durable; the program does it again. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmemobj.h>

int main(int argc, char **argv) {
  PMEMobjpool *pop = pmemobj_create(argv[1], "corpus", PMEMOBJ_MIN_POOL, 0600);
  if (pop == NULL)
    return 1;
  PMEMoid root = pmemobj_root(pop, sizeof(struct line));
  struct line *line = pmemobj_direct(root);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range(root, 0, 8);
    STORE(line->word[0], 1);
  }
  TX_END
  pmemobj_persist(pop, &line->word[0], 8); // expect: redundant-flush
  pmemobj_close(pop);
  return 0;
}
