/* libpmemobj: twenty thousand inserts into a hash map, then twenty thousand removals, each a transaction. As
 * `obj_transactions check DIR` it is the recovery.
 *
 * @flags -O2 -lpmemobj -lpmem
 */
#include "pm/hash_map.h"
#include "pm/pm.h"

int main(int argc, char **argv) {
  if (argc > 2) {
    PMEMobjpool *pool = map_open(directory_of(argc, argv), "pool");
    return !pool || !map_is_sound(pool);
  }
  PMEMobjpool *pool = map_create(directory_of(argc, argv), "pool", 64 << 20);
  for (uint64_t i = 0; i < 20000; i++) map_insert(pool, i * 7919 % 1000003, i);
  for (uint64_t i = 0; i < 20000; i++) check(map_remove(pool, i * 7919 % 1000003));
  pmemobj_close(pool);
  return 0;
}
