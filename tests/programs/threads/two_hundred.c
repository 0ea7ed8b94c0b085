/* Two hundred threads at once, all waiting for each other, twice.
 *
 * @build pie static
 */
#include <pthread.h>
#include "check.h"

static pthread_barrier_t barrier;
static volatile long sum;

static void *work(void *argument) {
  pthread_barrier_wait(&barrier);
  __atomic_add_fetch(&sum, (long)argument, __ATOMIC_SEQ_CST);
  pthread_barrier_wait(&barrier);
  check(sum == 199 * 200 / 2 || sum == 199 * 200);
  return NULL;
}

int main(void) {
  pthread_t threads[200];
  pthread_barrier_init(&barrier, NULL, 200);
  for (int round = 0; round < 2; round++) {
    for (long i = 0; i < 200; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 200; i++) check(pthread_join(threads[i], NULL) == 0);
  }
  printf("%ld\n", sum);
  return 0;
}
