/* Eight threads, one mutex, a little work inside and outside of it.
 *
 * @flags -O2
 */
#include <pthread.h>
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long shared;

static void *work(void *argument) {
  unsigned long own = (unsigned long)argument;
  for (int i = 0; i < 800000; i++) {
    for (int n = 0; n < 20; n++) own = own * 6364136223846793005UL + 1442695040888963407UL;
    pthread_mutex_lock(&mutex);
    shared += own >> 60;
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[8];
  for (long i = 0; i < 8; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  printf("%lu\n", shared);
  return 0;
}
