/* A transaction is aborted from a function that it calls, which leaves the block by a jump and still ends it. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void refuse(void) { pmemobj_tx_abort(1); }

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    STORE(root->count, 1);
    refuse();
  }
  TX_END
  exit(0);
}
