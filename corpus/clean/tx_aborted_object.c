/* Transactions that allocate are aborted: what was stored to their objects is never persisted, and need not be. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"
#include <errno.h>

static void insert(PMEMobjpool *pop, PMEMoid oid, int abort) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    PMEMoid new = pmemobj_tx_alloc(sizeof(struct node), 1);
    struct node *node = pmemobj_direct(new);
    STORE(node->value, root->count + 1);
    node->next = root->list;
    ADD(oid, struct root, list);
    root->list = new;
    if (abort)
      pmemobj_tx_abort(ECANCELED);
    ADD(oid, struct root, count);
    STORE(root->count, root->count + 1);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid = ROOT(pop);
  for (int i = 0; i < 4; i++)
    insert(pop, oid, i % 2);
  struct root *root = pmemobj_direct(oid);
  int right = root->count == 2;
  pmemobj_close(pop);
  return !right;
}
