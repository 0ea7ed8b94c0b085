/* A transaction is aborted: the library restores what was changed. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"
#include <errno.h>

static void count(PMEMobjpool *pop, PMEMoid oid, int abort) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
    if (abort)
      pmemobj_tx_abort(ECANCELED);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  count(pop, oid, 0);
  count(pop, oid, 1);
  struct root *root = pmemobj_direct(oid);
  int right = root->count == 1;
  pmemobj_close(pop);
  return !right;
}
