/* Two processes map the file, and the store is durable before the lock in it is released. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

static volatile int *turn;

static void await_turn(int number) {
  while (*turn != number)
    sched_yield();
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_mutex_t *mutex = (pthread_mutex_t *)&pm[8];
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(mutex, &attributes);
  turn = (volatile int *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (fork() == 0) {
    pthread_mutex_lock(mutex);
    (void)*(volatile uint64_t *)&pm[0].word[0];
    pthread_mutex_unlock(mutex);
    *turn = 1;
    _exit(0);
  }
  await_turn(1);
  pthread_mutex_lock(mutex);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  pthread_mutex_unlock(mutex);
  wait(NULL);
  return argc - 2;
}
