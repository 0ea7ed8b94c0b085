/* Threads come and go, compute and lock while a timer signals the process all the time. */
#include <pthread.h>
#include <sys/time.h>
#include "check.h"

static volatile int ticks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
  long sum = 0;
  for (long i = 0; i < 20000; i++) sum += (i * (long)argument) % 7;
  pthread_mutex_lock(&mutex);
  total += sum;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

int main(void) {
  struct itimerval every = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
  handle(SIGALRM, handler, SA_RESTART);
  setitimer(ITIMER_REAL, &every, NULL);
  for (int round = 0; round < 60; round++) {
    pthread_t threads[6];
    for (long i = 0; i < 6; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 6; i++) check(pthread_join(threads[i], NULL) == 0);
  }
  setitimer(ITIMER_REAL, &off, NULL);
  check(ticks > 0);
  printf("%ld\n", total);
  return 0;
}
