/* Cancellation at a blocking call, deferred, asynchronous, with cleanup handlers and destructors.
 *
 * @build pie musl
 */
#include <pthread.h>
#include "check.h"

static int cleaned, destroyed;
static volatile int ready;
static pthread_key_t key;

static void cleanup(void *argument) { cleaned += (int)(long)argument; }
static void destroy(void *value) { destroyed += (int)(long)value; }

static void *blocks(void *argument) {
  int ends[2];
  char byte;
  check(pipe(ends) == 0);
  pthread_setspecific(key, (void *)5);
  pthread_cleanup_push(cleanup, (void *)1);
  pthread_cleanup_push(cleanup, (void *)10);
  ready = 1;
  check(read(ends[0], &byte, 1) < 0);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return argument;
}

static void *spins(void *argument) {
  int old;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  pthread_cleanup_push(cleanup, (void *)100);
  ready = 1;
  for (volatile long i = 0;; i++) {
  }
  pthread_cleanup_pop(0);
  return argument;
}

static void *defers(void *argument) {
  int old;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  ready = 1;
  pause_ms(20);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
  cleaned += 1000;
  pthread_testcancel();
  cleaned += 10000;
  return argument;
}

int main(void) {
  void *(*kinds[])(void *) = {blocks, spins, defers};
  pthread_key_create(&key, destroy);
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    void *result;
    ready = 0;
    check(pthread_create(&thread, NULL, kinds[i], NULL) == 0);
    while (!ready) pause_ms(1);
    pause_ms(2);
    check(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  check(cleaned == 1111 && destroyed == 5);
  say("cancelled");
  return 0;
}
