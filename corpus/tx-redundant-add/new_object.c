/* An object made in the transaction needs no log: it is gone if the transaction is. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void insert(PMEMobjpool *pop, PMEMoid oid) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    PMEMoid new = pmemobj_tx_zalloc(sizeof(struct node), 1);
    struct node *node = pmemobj_direct(new);
    ADD(new, struct node, value); // expect: tx-redundant-add
    STORE(node->value, 1);
    ADD(oid, struct root, list);
    root->list = new;
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  insert(pop, ROOT(pop));
  pmemobj_close(pop);
  return 0;
}
