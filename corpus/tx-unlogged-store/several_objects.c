/* Two nodes that one function changes, and the root that two functions change, are not added: four snapshots are missing. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
// causes: 4
#include "../obj.h"

static __attribute__((noinline)) void fill(struct node *first, struct node *second) {
  STORE(first->value, 1); // expect: tx-unlogged-store
  STORE(first->next.off, 2); // expect: tx-unlogged-store
  STORE(second->value, 2); // expect: tx-unlogged-store
}

static __attribute__((noinline)) void count(struct root *root) {
  STORE(root->count, 2); // expect: tx-unlogged-store
}

static __attribute__((noinline)) void add_up(struct root *root) {
  STORE(root->total, 3); // expect: tx-unlogged-store
  STORE(root->list.off, 4); // expect: tx-unlogged-store
}

static struct node *create_node(PMEMobjpool *pop) {
  PMEMoid oid = OID_NULL;
  TX_BEGIN(pop) {
    oid = pmemobj_tx_zalloc(sizeof(struct node), 1);
  }
  TX_END
  return pmemobj_direct(oid);
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  struct root *root = pmemobj_direct(ROOT(pop));
  struct node *first = create_node(pop), *second = create_node(pop);
  TX_BEGIN(pop) {
    fill(first, second);
    count(root);
    add_up(root);
  }
  TX_END
  pmemobj_close(pop);
  return 0;
}
