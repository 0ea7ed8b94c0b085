/* libpmemobj: transactions that abort, by themselves and nested, and roll everything back.
 *
 * @varying
 * @flags -lpmemobj -lpmem
 */
#include "hash_map.h"
#include "pm.h"

int main(int argc, char **argv) {
  PMEMobjpool *pool = map_create(directory_of(argc, argv), "pool", 16 << 20);
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  volatile int aborted = 0;
  for (volatile uint64_t i = 0; i < 200; i++) {
    TX_BEGIN(pool) {
      TX_ADD(root);
      D_RW(root)->count = 1000 + i;
      TOID(struct entry) entry = TX_ZALLOC(struct entry, 300 + i);
      D_RW(entry)->key = i;
      memset(D_RW(root)->buckets, (int)i, sizeof D_RW(root)->buckets);
      if (i % 2) map_insert(pool, i, i);
      pmemobj_tx_abort(ECANCELED);
    }
    TX_ONABORT { aborted++; }
    TX_END
    check(D_RO(root)->count == 0 && TOID_IS_NULL(D_RO(root)->buckets[5]));
  }
  check(aborted == 200);
  map_insert(pool, 1, 2);
  pmemobj_close(pool);
  return 0;
}
