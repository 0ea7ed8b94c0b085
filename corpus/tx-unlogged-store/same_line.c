/* A neighbour of the logged field is changed: the commit flushes its line, but an abort does not restore it. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  uint64_t *words = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range(oid, 0, 8);
    STORE(words[0], 1);
    STORE(words[1], 2); // expect: tx-unlogged-store
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  count(pop, pmemobj_root(pop, 16));
  pmemobj_close(pop);
  return 0;
}
