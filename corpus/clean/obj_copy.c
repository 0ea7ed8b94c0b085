/* The copying functions of libpmemobj, each of one word. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  struct root *root = pmemobj_direct(ROOT(pop));
  uint64_t value = 7;
  pmemobj_memcpy_persist(pop, &root->count, &value, sizeof value);
  pmemobj_memcpy(pop, &root->total, &value, sizeof value, PMEMOBJ_F_MEM_NODRAIN);
  pmemobj_drain(pop);
  STORE(root->count, 8);
  pmemobj_flush(pop, &root->count, sizeof root->count);
  pmemobj_drain(pop);
  pmemobj_close(pop);
  return 0;
}
