/* Watched functions in several threads at once: each has calls of its own.
 *
 * @flags -O1 -pthread
 */
#include <pthread.h>
#include "call_log.h"

enum { THREADS = 4, ROUNDS = 50 };

watched long descend(long thread, long n) { return n == 0 ? thread : descend(thread, n - 1) + 1; }

static void *run(void *argument) {
  long thread = (long)argument;
  for (long round = 0; round < ROUNDS; round++) check(descend(thread, round % 5) == thread + round % 5);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) check(pthread_join(threads[i], NULL) == 0);
  return 0;
}
