/* A lock comes between a non-temporal store and the call that writes its page back. */
// build: -pthread
#include "../pm.h"
#include <pthread.h>

int main(int argc, char **argv) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  struct line *pm = map_pool(argv[1]);
  for (uint64_t value = 1; value < 4; value++) {
    MOVNTI(pm[0].word[0], value);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    if (msync(pm, 4096, MS_SYNC) != 0)
      return 1;
  }
  return 0;
}
