/* A function returns from the middle of a transaction, and the program ends. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static int count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) { // expect: tx-not-ended
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
    return 1;
  }
  TX_END
  return 0;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  return count(pop, ROOT(pop)) - 1;
}
