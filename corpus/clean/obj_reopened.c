/* A pool is closed, opened again and used by transactions that grow, change and free. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static void grow(PMEMobjpool *pop, PMEMoid oid, size_t size) {
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) {
    ADD(oid, struct root, list);
    if (!OID_IS_NULL(root->list))
      pmemobj_tx_free(root->list);
    root->list = pmemobj_tx_zalloc(size, 1);
  }
  TX_END
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  grow(pop, ROOT(pop), 64);
  pmemobj_close(pop);
  pop = pmemobj_open(argv[1], "corpus");
  if (pop == NULL)
    return 1;
  for (size_t size = 128; size < 4096; size *= 2)
    grow(pop, ROOT(pop), size);
  pmemobj_close(pop);
  return 0;
}
