/* Two threads with transactions of their own, on objects of their own. */
// build: -lpmemobj -pthread
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"

#include <pthread.h>

static PMEMobjpool *pop;

static void *work(void *oid_) {
  PMEMoid oid = *(PMEMoid *)oid_;
  struct root *root = pmemobj_direct(oid);
  for (int i = 0; i < 5; i++) {
    TX_BEGIN(pop) {
      ADD(oid, struct root, count);
      STORE(root->count, root->count + 1);
    }
    TX_END
    STORE(root->total, root->total + 1);
    pmemobj_persist(pop, &root->total, sizeof root->total);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pop = create_pool(argv[1]);
  PMEMoid oids[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) {
    if (pmemobj_zalloc(pop, &oids[i], sizeof(struct root), 1) != 0)
      return 1;
    pthread_create(&threads[i], NULL, work, &oids[i]);
  }
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  pmemobj_close(pop);
  return 0;
}
