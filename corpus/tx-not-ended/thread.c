/* A thread ends inside a transaction; the program goes on. */
// build: -lpmemobj -pthread
// env: PMEM_IS_PMEM_FORCE=1
#include "../obj.h"
#include <pthread.h>

static PMEMobjpool *pop;

static void *work(void *unused) {
  PMEMoid oid = ROOT(pop);
  struct root *root = pmemobj_direct(oid);
  TX_BEGIN(pop) { // expect: tx-not-ended
    ADD(oid, struct root, count);
    STORE(root->count, 1);
    return unused;
  }
  TX_END
  return unused;
}

int main(int argc, char **argv) {
  pop = create_pool(argv[1]);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  _exit(0);
}
