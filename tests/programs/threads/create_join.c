/* Threads are created, joined and detached; results, stacks and ids are their own.
 *
 * @build pie static static-pie musl musl-static
 */
#include <pthread.h>
#include "check.h"

static __thread long own = 7;
static volatile int detached_done;

static void *work(void *argument) {
  check(own == 7);
  own = (long)argument;
  for (int i = 0; i < 100; i++) sched_yield();
  check(own == (long)argument);
  return (void *)(own * 2);
}

static void *detached(void *argument) {
  pause_ms(5);
  __atomic_store_n(&detached_done, 1, __ATOMIC_RELEASE);
  return argument;
}

int main(void) {
  pthread_t threads[20];
  pthread_attr_t attributes;
  long sum = 0;
  for (long i = 0; i < 20; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (long i = 0; i < 20; i++) {
    void *result;
    check(pthread_join(threads[i], &result) == 0 && (long)result == 2 * i);
    sum += (long)result;
  }
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 65536);
  check(pthread_create(&threads[0], &attributes, detached, NULL) == 0);
  while (!__atomic_load_n(&detached_done, __ATOMIC_ACQUIRE)) sched_yield();
  check(own == 7);
  printf("%ld\n", sum);
  return 0;
}
