/* libpmemobj: an object is allocated on its own and linked afterwards; a crash in between leaves it to nobody. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
// check: --after pmemobj_root
// causes: 1
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include "../obj.h"

static int add(PMEMobjpool *pop, struct root *root) {
  PMEMoid node;
  if (pmemobj_zalloc(pop, &node, sizeof(struct node), 1) != 0) // expect: recovery-failed
    return 1;
  STORE(root->list.off, node.off); // missing-store: recovery-failed
  pmemobj_persist(pop, &root->list.off, sizeof root->list.off); // expect: recovery-failed
  return 0;
}

static int recover(PMEMobjpool *pop) {
  REQUIRE(pop != NULL);
  const struct root *root = pmemobj_direct(ROOT(pop));
  PMEMoid object = pmemobj_first(pop);
  REQUIRE(object.off == root->list.off);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return recover(pmemobj_open(argv[1], "corpus"));
  PMEMobjpool *pop = create_pool(argv[1]);
  int failed = add(pop, pmemobj_direct(ROOT(pop)));
  pmemobj_close(pop);
  return failed;
}
