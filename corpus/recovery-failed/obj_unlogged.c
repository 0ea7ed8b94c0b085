/* libpmemobj: a transaction changes a field that it has not logged. After a crash the other field is rolled back, and
 * this one is not. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
// causes: 1
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include "../obj.h"

static void count(PMEMobjpool *pop, struct root *root) {
  TX_BEGIN(pop) {
    pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
    STORE(root->count, root->count + 1);
    STORE(root->total, root->total + 10);
    pmemobj_persist(pop, &root->total, sizeof root->total); // expect: recovery-failed
  }
  TX_END // expect: recovery-failed // missing-store: recovery-failed
}

static int recover(PMEMobjpool *pop) {
  REQUIRE(pop != NULL);
  const struct root *root = pmemobj_direct(ROOT(pop));
  REQUIRE(root->total == root->count * 10);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return recover(pmemobj_open(argv[1], "corpus"));
  PMEMobjpool *pop = create_pool(argv[1]);
  struct root *root = pmemobj_direct(ROOT(pop));
  count(pop, root);
  pmemobj_close(pop);
  return 0;
}
