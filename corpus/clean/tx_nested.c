/* An inner transaction relies on what the outer one has added. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    STORE(root->count, root->count + 1);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    count(pop, oid);
  }
  TX_END
  pmemobj_close(pop);
  return 0;
}
