/* libpmemobj: twenty thousand inserts into a hash map, then twenty thousand removals, each a transaction.
 *
 * @flags -O2 -lpmemobj -lpmem
 */
#include "pm/hash_map.h"
#include "pm/pm.h"

int main(int argc, char **argv) {
  PMEMobjpool *pool = map_create(directory_of(argc, argv), "pool", 64 << 20);
  for (uint64_t i = 0; i < 20000; i++) map_insert(pool, i * 7919 % 1000003, i);
  for (uint64_t i = 0; i < 20000; i++) check(map_remove(pool, i * 7919 % 1000003));
  pmemobj_close(pool);
  return 0;
}
