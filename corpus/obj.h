/* What the programs for libpmemobj share: a pool with a root object. */
#ifndef OBJ_H
#define OBJ_H

#include "pm.h"
#include <libpmemobj.h>

/* Each field is in a line of its own, wherever the object begins. */
struct root {
  uint64_t count;
  char gap[120];
  uint64_t total;
  char gap2[120];
  PMEMoid list;
};

struct node {
  PMEMoid next;
  uint64_t value;
};

/* Makes a pool at `path`. */
static inline PMEMobjpool *create_pool(const char *path) {
  PMEMobjpool *pop = pmemobj_create(path, "corpus", PMEMOBJ_MIN_POOL, 0600);
  if (pop == NULL)
    exit(1);
  return pop;
}

#define ROOT(pop) pmemobj_root(pop, sizeof(struct root))
#define ADD(oid, type, field) pmemobj_tx_add_range(oid, offsetof(type, field), sizeof(((type *)0)->field))

#endif
