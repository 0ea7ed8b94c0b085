/* A list grows: new nodes need no log, the root does. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void insert(PMEMobjpool *pop, PMEMoid oid, uint64_t value) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    PMEMoid new = pmemobj_tx_alloc(sizeof(struct node), 1);
    struct node *node = pmemobj_direct(new);
    STORE(node->value, value);
    node->next = root->list;
    ADD(oid, struct root, list);
    root->list = new;
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  for (uint64_t i = 1; i < 5; i++)
    insert(pop, ROOT(pop), i);
  pmemobj_close(pop);
  return 0;
}
