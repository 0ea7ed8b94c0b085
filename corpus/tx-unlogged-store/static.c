/* As `forgotten`, with the library as part of the program. */
// build: -Wl,-Bstatic -lpmemobj -lpmem -Wl,-Bdynamic -lndctl -ldaxctl -pthread
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void count(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
    STORE(root->total, root->total + 10); // expect: tx-unlogged-store
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  struct root *root = pmemobj_direct(oid);
  STORE(root->total, 1);
  pmemobj_persist(pop, &root->total, sizeof root->total);
  count(pop, oid);
  pmemobj_close(pop);
  return 0;
}
