/* A constructor that libpmemobj calls back must make durable what it stores; this one forgets a field. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static int construct(PMEMobjpool *pop, void *object, void *unused) {
  struct root *root = object;
  STORE(root->count, 1);
  pmemobj_persist(pop, &root->count, sizeof root->count);
  STORE(root->total, 2); // expect: transient-data
  return unused != NULL;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  PMEMoid oid;
  if (pmemobj_alloc(pop, &oid, sizeof(struct root), 1, construct, NULL) != 0)
    return 1;
  pmemobj_close(pop);
  return 0;
}
