/* Signals to one thread of many run there; signals to the process run where they are not blocked. */
#include <pthread.h>
#include <sys/syscall.h>
#include "check.h"

static volatile pid_t ran_in;
static pid_t ids[6];
static pthread_barrier_t barrier;
static volatile int done;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  ran_in = (pid_t)syscall(SYS_gettid);
}

static void *thread(void *argument) {
  long number = (long)argument;
  ids[number] = (pid_t)syscall(SYS_gettid);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(number == 3 ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
  pthread_barrier_wait(&barrier);
  while (!done) pause_ms(1);
  return NULL;
}

int main(void) {
  pthread_t threads[6];
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  handle(SIGUSR1, handler, 0);
  handle(SIGUSR2, handler, 0);
  sigprocmask(SIG_BLOCK, &set, NULL);
  pthread_barrier_init(&barrier, NULL, 7);
  for (long i = 0; i < 6; i++) check(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
  pthread_barrier_wait(&barrier);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 6; i++) {
      ran_in = 0;
      pthread_kill(threads[i], SIGUSR1);
      while (ran_in == 0) pause_ms(1);
      check(ran_in == ids[i]);
    }
    ran_in = 0;
    kill(getpid(), SIGUSR2);
    while (ran_in == 0) pause_ms(1);
    check(ran_in == ids[3]);
  }
  done = 1;
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  check(syscall(SYS_tgkill, getpid(), ids[0], 0) == -1 && errno == ESRCH);
  say("each to its own");
  return 0;
}
