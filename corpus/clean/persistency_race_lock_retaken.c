/* An inner lock is released between the store and its persist, the outer one is not. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(0);
  pthread_mutex_lock(&mutex);
  LOAD(pm[0].word[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&inner);
  STORE(pm[0].word[0], 7);
  pthread_mutex_unlock(&inner);
  pthread_mutex_lock(&inner);
  PERSIST(pm[0]);
  pthread_mutex_unlock(&inner);
  pthread_mutex_unlock(&mutex);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
