/* A fault in one thread kills the whole process.
 *
 * @signal SIGSEGV
 */
#include <pthread.h>
#include "check.h"

static void *faults(void *argument) {
  pause_ms(10);
  *(volatile int *)argument = 1;
  return NULL;
}

int main(void) {
  pthread_t thread;
  say("before");
  for (int i = 0; i < 4; i++) check(pthread_create(&thread, NULL, faults, (void *)(16L * i)) == 0);
  for (;;) pause();
}
