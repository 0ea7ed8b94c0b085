/* A transaction changes a field that is not in its log. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  struct root *root = pmemobj_direct(ROOT(pop));
  TX_BEGIN(pop) {
    pmemobj_tx_add_range_direct(&root->count, sizeof root->count);
    root->count = 1;
    // repair: pmemobj_tx_add_range_direct(&root->total, sizeof root->total);
    root->total = 2;
  }
  TX_END
  pmemobj_close(pop);
  return 0;
}
