/* Each store that another thread reads is flushed, and durable when the lock is released. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  pthread_mutex_lock(&mutex);
  LOAD(pm[0].word[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(0);
  pthread_mutex_lock(&mutex);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 8);
  PERSIST(pm[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
