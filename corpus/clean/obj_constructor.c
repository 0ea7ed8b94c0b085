/* A constructor that libpmemobj calls back makes durable what it stores. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static int construct(PMEMobjpool *pop, void *object, void *unused) {
  struct root *root = object;
  STORE(root->count, 1);
  pmemobj_persist(pop, &root->count, sizeof root->count);
  STORE(root->total, 2);
  pmemobj_persist(pop, &root->total, sizeof root->total);
  return unused != NULL;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  for (int i = 0; i < 3; i++) {
    PMEMoid oid;
    if (pmemobj_alloc(pop, &oid, sizeof(struct root), 1, construct, NULL) != 0)
      return 1;
    pmemobj_free(&oid);
  }
  pmemobj_close(pop);
  return 0;
}
