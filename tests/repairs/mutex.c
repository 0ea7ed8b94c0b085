/* A mutex is the only fence. */
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_mutex_lock(&lock);
  STORE(pm->word[0], 1);
  FLUSH(pm->word[0]);
  // repair: SFENCE();
  pthread_mutex_unlock(&lock);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  return 0;
}
