/* A store between calls of a libpmemobj that is part of the program, and one in what it calls back. */
// build: -Wl,-Bstatic -lpmemobj -lpmem -Wl,-Bdynamic -lndctl -ldaxctl -pthread
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

static int construct(PMEMobjpool *pop, void *object, void *value) {
  struct root *made = object;
  STORE(made->count, 1);
  pmemobj_persist(pop, made, sizeof *made); // expect: redundant-flush
  STORE(made->total, *(uint64_t *)value); // expect: missing-flush
  return 0;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  struct root *root = pmemobj_direct(ROOT(pop));
  uint64_t value = 7;
  STORE(root->count, 1);
  pmemobj_persist(pop, &root->count, sizeof root->count);
  STORE(root->count, 2); // expect: missing-flush
  pmemobj_alloc(pop, &root->list, sizeof(struct root), 1, construct, &value);
  pmemobj_close(pop);
  return 0;
}
