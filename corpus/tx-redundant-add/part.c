/* A field is added though the whole object is in the log. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_add_range(oid, 0, sizeof(struct root));
    STORE(root->count, root->count + 1);
    ADD(oid, struct root, total); // expect: tx-redundant-add
    STORE(root->total, root->total + 10);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  count(pop, ROOT(pop));
  pmemobj_close(pop);
  return 0;
}
