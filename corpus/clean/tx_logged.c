/* Everything that a transaction changes is added once, before it is changed. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
    ADD(oid, struct root, total);
    STORE(root->total, root->total + 10);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  for (int i = 0; i < 3; i++)
    count(pop, ROOT(pop));
  pmemobj_close(pop);
  return 0;
}
