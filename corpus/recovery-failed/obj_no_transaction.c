/* libpmemobj: two fields that belong together are persisted one after the other, without a transaction. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
// check: --after pmemobj_root
// causes: 1
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include "../obj.h"

static void count(PMEMobjpool *pop, struct root *root) {
  STORE(root->count, root->count + 1);
  pmemobj_persist(pop, &root->count, sizeof root->count); // expect: recovery-failed
  STORE(root->total, root->total + 10); // missing-store: recovery-failed
  pmemobj_persist(pop, &root->total, sizeof root->total); // expect: recovery-failed
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
  for (int i = 0; i < 3; i++)
    count(pop, root);
  pmemobj_close(pop);
  return 0;
}
