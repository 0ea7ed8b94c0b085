/* What an inner transaction changes must be in the log as well. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  uint64_t *words = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    STORE(words[1], words[1] + 1); // expect: tx-unlogged-store
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = pmemobj_root(pop, 16);
  uint64_t *words = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range(oid, 0, 8);
    STORE(words[0], 1);
    count(pop, oid);
  }
  TX_END
  pmemobj_close(pop);
  return 0;
}
