/* Five thousand threads, a few at a time: what a thread leaves behind must not add up. */
#include <pthread.h>
#include "check.h"

static void *work(void *argument) { return (void *)((long)argument + 1); }

int main(void) {
  long sum = 0;
  for (long i = 0; i < 5000; i += 4) {
    pthread_t threads[4];
    for (long n = 0; n < 4; n++) check(pthread_create(&threads[n], NULL, work, (void *)(i + n)) == 0);
    for (int n = 0; n < 4; n++) {
      void *result;
      check(pthread_join(threads[n], &result) == 0);
      sum += (long)result;
    }
  }
  printf("%ld\n", sum);
  return 0;
}
