/* Threads come and go, joined and detached; each stores to persistent memory. */
#include <pthread.h>
#include "soak.h"

static int *done;

static void *work(void *argument) {
  __atomic_add_fetch(done, 1, __ATOMIC_SEQ_CST);
  return argument;
}

int main(int argc, char **argv) {
  soak_start(argc, argv);
  done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, soak_file(4096), 0);
  check(done != MAP_FAILED);
  pthread_attr_t detached;
  check(pthread_attr_init(&detached) == 0 && pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0);
  while (soak_on()) {
    pthread_t threads[8], loose;
    __atomic_store_n(done, 0, __ATOMIC_SEQ_CST);
    for (long i = 0; i < 8; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    check(pthread_create(&loose, &detached, work, NULL) == 0);
    for (long i = 0; i < 8; i++) {
      void *result;
      check(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    while (__atomic_load_n(done, __ATOMIC_SEQ_CST) < 9) usleep(100);
  }
  say("joined");
  return 0;
}
