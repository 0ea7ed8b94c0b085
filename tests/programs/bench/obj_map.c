/* libpmemobj: inserts into a hash map and removals, 32 in a transaction, so that the library walks its tree of logged ranges
 * recursively. Each round, as many as the first argument says, is about a million events on the same keys.
 *
 * @args 1
 * @flags -O2 -lpmemobj -lpmem
 */
#define BUCKETS 16384
#include "pm/hash_map.h"
#include "pm/pm.h"

enum { KEYS = 16384, BATCH = 32 };

int main(int argc, char **argv) {
  check(argc > 2);
  PMEMobjpool *pool = map_create(directory_of(argc, argv), "pool", 64 << 20);
  for (long rounds = strtol(argv[1], NULL, 10); rounds > 0; rounds--) {
    for (uint64_t i = 0; i < 2 * KEYS; i += BATCH) {
      TX_BEGIN(pool) {
        for (uint64_t at = i; at < i + BATCH; at++) {
          uint64_t key = at % KEYS * 7919 % 1000003;
          if (at < KEYS)
            map_insert(pool, key, at);
          else
            check(map_remove(pool, key));
        }
      }
      TX_END
    }
  }
  pmemobj_close(pool);
  return 0;
}
