/* libpmemobj: a few inserts into a hash map, as many as the first argument says, each a transaction. As
 * `obj_inserts check DIR` it is the recovery, to explore: it opens the pool and checks the map.
 *
 * @flags -O2 -lpmemobj -lpmem
 */
#define BUCKETS 16
#include "pm/hash_map.h"
#include "pm/pm.h"

int main(int argc, char **argv) {
  check(argc > 2);
  const char *directory = directory_of(argc, argv);
  if (!strcmp(argv[1], "check")) {
    PMEMobjpool *pool = map_open(directory, "pool");
    return !pool || !map_is_sound(pool);
  }
  PMEMobjpool *pool = map_create(directory, "pool", PMEMOBJ_MIN_POOL);
  uint64_t inserts = strtoul(argv[1], NULL, 10);
  for (uint64_t i = 0; i < inserts; i++) map_insert(pool, i * 7919, i);
  pmemobj_close(pool);
  return 0;
}
