/* A range whose old content does not matter is added without a snapshot. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void set(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    pmemobj_tx_xadd_range(oid, offsetof(struct root, total), 8, POBJ_XADD_NO_SNAPSHOT);
    STORE(root->total, 7);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  set(pop, ROOT(pop));
  pmemobj_close(pop);
  return 0;
}
