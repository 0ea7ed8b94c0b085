/* An object of libpmemobj is changed outside of a transaction and not made durable. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmemobj.h>

struct root {
  uint64_t first;
  char gap[120]; /* the second is in another line, wherever the object begins */
  uint64_t second;
};

int main(int argc, char **argv) {
  PMEMobjpool *pop = pmemobj_create(argv[1], "corpus", PMEMOBJ_MIN_POOL, 0600);
  if (pop == NULL)
    return 1;
  struct root *root = pmemobj_direct(pmemobj_root(pop, sizeof(struct root)));
  STORE(root->second, 1);
  pmemobj_persist(pop, &root->second, 8);
  STORE(root->second, 2); // expect: missing-flush
  STORE(root->first, 1);
  pmemobj_persist(pop, &root->first, 8);
  pmemobj_close(pop);
  return 0;
}
