/* Transactions that hold a mutex of libpmemobj, and allocate and free in turns. */
// build: -pthread -lpmemobj
// check: --loads
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"
#include "../turns.h"

static PMEMobjpool *pop;
static PMEMmutex *mutex;
static struct root *root;

static void *reader(void *unused) {
  await_turn(0);
  pmemobj_mutex_lock(pop, mutex);
  LOAD(root->count);
  pmemobj_mutex_unlock(pop, mutex);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  for (volatile int i = 0; i < 4; i++) {
    TX_BEGIN_PARAM(pop, TX_PARAM_MUTEX, mutex, TX_PARAM_NONE) {
      ADD(pmemobj_root(pop, 0), struct root, count);
      ADD(pmemobj_root(pop, 0), struct root, list);
      STORE(root->count, i);
      if (!OID_IS_NULL(root->list))
        pmemobj_tx_free(root->list);
      root->list = pmemobj_tx_zalloc(sizeof(struct node), 1);
    }
    TX_END
  }
  return unused;
}

int main(int argc, char **argv) {
  pop = create_pool(argv[1]);
  root = pmemobj_direct(pmemobj_root(pop, sizeof(struct root) + sizeof(PMEMmutex)));
  mutex = (PMEMmutex *)(root + 1);
  run_threads(reader, writer);
  pmemobj_close(pop);
  return argc - 2;
}
