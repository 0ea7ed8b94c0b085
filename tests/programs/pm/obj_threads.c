/* libpmemobj: transactions of four threads on lanes of their own, in one pool.
 *
 * @threaded
 * @flags -lpmemobj -lpmem
 */
#include "hash_map.h"
#include "racing.h"

static PMEMobjpool *pool;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void work(int number, uint64_t *random) {
  for (volatile uint64_t i = 0; i < 60; i++) {
    pthread_mutex_lock(&mutex);
    map_insert(pool, i * 4 + (uint64_t)number, next_random(random));
    if (i % 3 == 0) check(map_remove(pool, i * 4 + (uint64_t)number));
    pthread_mutex_unlock(&mutex);
    PMEMoid block;
    TX_BEGIN(pool) { /* without the lock: the allocator's own threads of work */
      block = pmemobj_tx_alloc(next_random(random) % 2000 + 128, (uint64_t)number + 10);
      memset(pmemobj_direct(block), (int)i, 100 + (size_t)(i % 2));
      if (i % 2) pmemobj_tx_free(block);
    }
    TX_ONABORT { check(!"aborted"); }
    TX_END
  }
}

int main(int argc, char **argv) {
  pool = map_create(directory_of(argc, argv), "pool", 16 << 20);
  race(4, work);
  check(D_RO(POBJ_ROOT(pool, struct root))->count == 4 * 40);
  pmemobj_close(pool);
  return 0;
}
