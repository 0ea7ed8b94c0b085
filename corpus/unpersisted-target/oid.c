/* Without a transaction, the object is made durable after the identifier that leads to it. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid root_oid = ROOT(pop), oid;
  struct root *root = pmemobj_direct(root_oid);
  if (pmemobj_zalloc(pop, &oid, sizeof(struct node), 1) != 0)
    return 1;
  struct node *node = pmemobj_direct(oid);
  node->next = root->list;
  STORE(node->value, 7);
  root->list = oid; // expect: unpersisted-target
  pmemobj_persist(pop, &root->list, sizeof root->list); // expect[O0]: flush-covers-many
  pmemobj_persist(pop, node, sizeof *node); // expect: flush-covers-many
  pmemobj_close(pop);
  return 0;
}
