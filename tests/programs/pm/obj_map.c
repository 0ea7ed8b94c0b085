/* libpmemobj: a hash map, inserts and removals in transactions.
 *
 * @varying
 * @flags -lpmemobj -lpmem
 */
#include "hash_map.h"
#include "pm.h"

int main(int argc, char **argv) {
  PMEMobjpool *pool = map_create(directory_of(argc, argv), "pool", 16 << 20);
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  for (uint64_t i = 0; i < 1500; i++) map_insert(pool, i * 7, i);
  for (uint64_t i = 0; i < 1500; i += 2) check(map_remove(pool, i * 7));
  check(!map_remove(pool, 3) && D_RO(root)->count == 750);
  pmemobj_close(pool);
  return 0;
}
