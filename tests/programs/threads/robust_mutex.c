/* A robust mutex whose owner died, thread or process, is handed on with EOWNERDEAD.
 *
 * @build pie musl
 */
#include <pthread.h>
#include "check.h"

static void *dies_with(void *mutex) {
  check(pthread_mutex_lock(mutex) == 0);
  return NULL;
}

int main(void) {
  pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t attributes;
  pthread_t thread;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  check(pthread_mutex_init(mutex, &attributes) == 0);
  check(pthread_create(&thread, NULL, dies_with, mutex) == 0 && pthread_join(thread, NULL) == 0);
  check(pthread_mutex_lock(mutex) == EOWNERDEAD && pthread_mutex_consistent(mutex) == 0);
  check(pthread_mutex_unlock(mutex) == 0);
  pid_t child = fork();
  if (child == 0) {
    check(pthread_mutex_lock(mutex) == 0);
    kill(getpid(), SIGKILL);
  }
  check(death_signal(child) == SIGKILL);
  check(pthread_mutex_lock(mutex) == EOWNERDEAD);
  check(pthread_mutex_unlock(mutex) == 0);
  check(pthread_mutex_lock(mutex) == ENOTRECOVERABLE);
  say("inherited");
  return 0;
}
