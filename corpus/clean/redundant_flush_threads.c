/* Threads by turns change and flush one line. */
// variants: clwb clflushopt clflush
// build: -pthread
#include "../pm.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *line_) {
  struct line *line = line_;
  for (int i = 0; i < 20; i++) {
    pthread_mutex_lock(&mutex);
    STORE(line->word[0], line->word[0] + 1);
    PERSIST(*line);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, pm);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
