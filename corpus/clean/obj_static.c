/* libpmemobj as part of the program: what it stores for itself is its own business there too. */
// build: -Wl,-Bstatic -lpmemobj -lpmem -Wl,-Bdynamic -lndctl -ldaxctl -pthread
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static int construct(PMEMobjpool *pop, void *object, void *value) {
  struct node *node = object;
  STORE(node->value, *(uint64_t *)value);
  pmemobj_persist(pop, &node->value, sizeof node->value);
  return 0;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  struct root *root = pmemobj_direct(oid);
  uint64_t value = 7;
  pmemobj_memcpy_persist(pop, &root->total, &value, sizeof value);
  pmemobj_alloc(pop, &root->list, sizeof(struct node), 1, construct, &value);
  TX_BEGIN(pop) {
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
    PMEMoid made = pmemobj_tx_zalloc(sizeof(struct node), 1);
    STORE(((struct node *)pmemobj_direct(made))->value, 2);
    pmemobj_tx_free(made);
  }
  TX_END
  pmemobj_free(&root->list);
  pmemobj_close(pop);
  return 0;
}
