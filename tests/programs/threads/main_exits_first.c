/* The first thread ends by pthread_exit; the process lives until the last thread, and exits 0.
 *
 * @build pie static musl
 */
#include <pthread.h>
#include "check.h"

static pthread_t first;

static void *survives(void *argument) {
  void *result;
  check(pthread_join(first, &result) == 0 && result == (void *)5);
  pause_ms(10);
  say("after the first");
  return argument;
}

int main(void) {
  pthread_t thread;
  first = pthread_self();
  check(pthread_create(&thread, NULL, survives, NULL) == 0);
  pthread_exit((void *)5);
}
