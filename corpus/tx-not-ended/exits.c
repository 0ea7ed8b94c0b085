/* The program exits inside a transaction, after another one was ended as it should be. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, total);
    STORE(root->total, 1);
  }
  TX_END
  TX_BEGIN(pop) { // expect: tx-not-ended
    ADD(oid, struct root, count);
    STORE(root->count, 1);
    _exit(0);
  }
  TX_END
}
