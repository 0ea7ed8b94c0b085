/* A mutex of libpmemobj is released before the store is durable. */
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
  pmemobj_mutex_lock(pop, mutex);
  STORE(root->count, 7); // expect: persistency-race
  pmemobj_mutex_unlock(pop, mutex);
  pmemobj_persist(pop, &root->count, sizeof(root->count));
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
