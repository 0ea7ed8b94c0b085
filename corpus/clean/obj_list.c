/* The atomic lists of libpmemobj: what the library stores for itself is its own business. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

POBJ_LAYOUT_BEGIN(corpus);
POBJ_LAYOUT_ROOT(corpus, struct lists);
POBJ_LAYOUT_TOID(corpus, struct entry);
POBJ_LAYOUT_END(corpus);

struct entry {
  POBJ_LIST_ENTRY(struct entry) link;
  uint64_t value;
};

struct lists {
  POBJ_LIST_HEAD(head, struct entry) all;
};

static int construct(PMEMobjpool *pop, void *object, void *value) {
  struct entry *entry = object;
  STORE(entry->value, *(uint64_t *)value);
  pmemobj_persist(pop, &entry->value, sizeof entry->value);
  return 0;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  TOID(struct lists) lists = POBJ_ROOT(pop, struct lists);
  for (uint64_t i = 1; i < 5; i++)
    POBJ_LIST_INSERT_NEW_HEAD(pop, &D_RW(lists)->all, link, sizeof(struct entry), construct, &i);
  TOID(struct entry) first = POBJ_LIST_FIRST(&D_RO(lists)->all);
  POBJ_LIST_REMOVE_FREE(pop, &D_RW(lists)->all, first, link);
  pmemobj_close(pop);
  return 0;
}
