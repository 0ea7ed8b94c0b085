/* A function inserts into a table without adding it: one snapshot is missing, however many lines would need it. */
// build: -lpmemobj
// env: PMEM_IS_PMEM_FORCE=1
// causes: 1
#include "../obj.h"
#include <string.h>

struct table {
  uint64_t count;
  uint64_t keys[40], values[40];
};

static __attribute__((noinline)) void set_value(struct table *table, uint64_t value) {
  STORE(table->values[0], value); // expect: tx-unlogged-store
}

static __attribute__((noinline)) void insert(struct table *table, uint64_t key) {
  if (table->count > 0)
    memmove(&table->keys[1], &table->keys[0], table->count * sizeof key); // expect: tx-unlogged-store
  STORE(table->keys[0], key); // expect: tx-unlogged-store
  set_value(table, key * 10);
  STORE(table->count, table->count + 1); // expect: tx-unlogged-store
}

static PMEMoid create_table(PMEMobjpool *pop) {
  PMEMoid oid = OID_NULL;
  TX_BEGIN(pop) {
    oid = pmemobj_tx_zalloc(sizeof(struct table), 1);
  }
  TX_END
  return oid;
}

int main(int argc, char **argv) {
  PMEMobjpool *pop = create_pool(argv[1]);
  struct table *table = pmemobj_direct(create_table(pop));
  for (uint64_t i = 1; i < 4; i++) {
    TX_BEGIN(pop) {
      insert(table, i);
    }
    TX_END
  }
  pmemobj_close(pop);
  return 0;
}
