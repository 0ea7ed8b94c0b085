/* exit by a thread while others run ends all, with its status, after atexit handlers.
 *
 * @exit 17
 */
#include <pthread.h>
#include "check.h"

static void at_exit(void) { say("at exit"); }

static void *busy(void *argument) {
  for (volatile long i = 0;; i++) {
  }
  return argument;
}

static void *ends(void *argument) {
  pause_ms(10);
  exit(17);
  return argument;
}

int main(void) {
  pthread_t thread;
  atexit(at_exit);
  for (int i = 0; i < 3; i++) check(pthread_create(&thread, NULL, busy, NULL) == 0);
  check(pthread_create(&thread, NULL, ends, NULL) == 0);
  for (;;) pause();
}
