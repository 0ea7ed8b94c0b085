/* The object is durable, or logged, before the identifier that leads to it. */
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
  STORE(node->value, 7);
  pmemobj_persist(pop, &node->value, sizeof node->value);
  TX_BEGIN(pop) {
    ADD(root_oid, struct root, list);
    root->list = oid;
    oid = pmemobj_tx_zalloc(sizeof(struct node), 1);
    node = pmemobj_direct(oid);
    node->next = root->list;
    STORE(node->value, 8);
    root->list = oid;
  }
  TX_END
  pmemobj_close(pop);
  return 0;
}
