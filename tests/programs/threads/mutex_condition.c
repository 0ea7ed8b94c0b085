/* Mutexes, condition variables, read-write locks, semaphores and barriers between eight threads.
 *
 * @build pie static musl
 */
#include <pthread.h>
#include <semaphore.h>
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t slots;
static long counter, turn, written, spun;

static void *work(void *argument) {
  long number = (long)argument;
  for (int i = 0; i < 500; i++) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
    if (i % 10 == 0) {
      pthread_rwlock_wrlock(&shared);
      written++;
      pthread_rwlock_unlock(&shared);
    } else {
      pthread_rwlock_rdlock(&shared);
      check(written >= 0);
      pthread_rwlock_unlock(&shared);
    }
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
  }
  for (int round = 0; round < 20; round++) {
    pthread_mutex_lock(&mutex);
    while (turn % 8 != number) pthread_cond_wait(&changed, &mutex);
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  sem_wait(&slots);
  sem_post(&slots);
  return NULL;
}

int main(void) {
  pthread_t threads[8];
  sem_init(&slots, 0, 2);
  pthread_spin_init(&spin, 0);
  for (long i = 0; i < 8; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < 8; i++) check(pthread_join(threads[i], NULL) == 0);
  struct timespec past = {1, 0};
  pthread_mutex_lock(&mutex);
  check(pthread_cond_timedwait(&changed, &mutex, &past) == ETIMEDOUT);
  printf("%ld %ld %ld %ld\n", counter, turn, written, spun);
  return 0;
}
