/* A thread writes its record in the right order, whether or not it finds another one at work. */
// build: -pthread
// check: --schedules 8
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <pthread.h>

static struct line *pm;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int working;

static void *work(void *unused) {
  for (int i = 2; i < 30; i++) {
    pthread_mutex_lock(&mutex);
    working = i < 29;
    SET(pm[i].word[0], i);
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

static void *put(void *unused) {
  pthread_mutex_lock(&mutex);
  if (working) {
    SET(pm[1].word[0], 7);
    SET(pm[0].word[0], 1);
  } else {
    SET(pm[1].word[0], 7);
    SET(pm[0].word[0], 1);
  }
  pthread_mutex_unlock(&mutex);
  return unused;
}

int main(int argc, char **argv) {
  pthread_t threads[2];
  pm = map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(!pm[0].word[0] || pm[1].word[0] == 7);
    return 0;
  }
  pthread_create(&threads[0], NULL, work, NULL);
  pthread_create(&threads[1], NULL, put, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return 0;
}
