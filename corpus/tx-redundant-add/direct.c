/* A range is added by address, and again by object. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
    STORE(root->count, root->count + 1);
    ADD(oid, struct root, count); // expect: tx-redundant-add
    STORE(root->count, root->count + 1);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  count(pop, ROOT(pop));
  pmemobj_close(pop);
  return 0;
}
