/* A function that is meant for a transaction leaves the logging to its callers; one of them forgets it. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void add(uint64_t *place, uint64_t amount) {
  STORE(*place, *place + amount); // expect: tx-unlogged-store
}

static void count(PMEMobjpool *pop, PMEMoid oid) {
  uint64_t *words = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range(oid, 0, 8);
    add(&words[0], 1);
    add(&words[1], 10);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  count(pop, pmemobj_root(pop, 16));
  pmemobj_close(pop);
  return 0;
}
