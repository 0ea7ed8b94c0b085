/* A store that is not to be undone is made durable by itself, inside of the transaction. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    STORE(root->total, root->total + 1); /* attempts, also those that fail */
    pmemobj_persist(pop, &root->total, sizeof root->total);
    ADD(oid, struct root, count);
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
