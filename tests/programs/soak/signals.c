/* A fast timer, faults that are handled, and signals between threads. */
#include <pthread.h>
#include <setjmp.h>
#include <sys/time.h>
#include "soak.h"

static volatile sig_atomic_t ticks, taps;
static sigjmp_buf back;

static void tick(int number, siginfo_t *info, void *context) {
  (void)number, (void)info, (void)context;
  ticks++;
}

static void tap(int number, siginfo_t *info, void *context) {
  (void)number, (void)info, (void)context;
  taps++;
}

static void fault(int number, siginfo_t *info, void *context) {
  (void)number, (void)info, (void)context;
  siglongjmp(back, 1);
}

static void *spin(void *stop) {
  volatile long sum = 0;
  while (!__atomic_load_n((int *)stop, __ATOMIC_SEQ_CST)) sum++;
  return NULL;
}

int main(int argc, char **argv) {
  soak_start(argc, argv);
  handle(SIGALRM, tick, SA_RESTART);
  handle(SIGUSR1, tap, 0);
  handle(SIGSEGV, fault, 0);
  struct itimerval every = {{0, 1000}, {0, 1000}};
  check(setitimer(ITIMER_REAL, &every, NULL) == 0);
  int stop = 0;
  pthread_t thread;
  check(pthread_create(&thread, NULL, spin, &stop) == 0);
  while (soak_on()) {
    if (sigsetjmp(back, 1) == 0) *(volatile int *)16 = 1;
    check(pthread_kill(thread, SIGUSR1) == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
  check(pthread_join(thread, NULL) == 0 && ticks > 0 && taps > 0);
  say("handled");
  return 0;
}
