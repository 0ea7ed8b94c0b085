/* A thread is woken before the store is durable that it waits for. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stored = PTHREAD_COND_INITIALIZER;
static int is_stored;
static struct line *pm;

static void *reader(void *unused) {
  pthread_mutex_lock(&mutex);
  end_turn();
  while (!is_stored)
    pthread_cond_wait(&stored, &mutex);
  pthread_mutex_unlock(&mutex);
  LOAD(pm[0].word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  STORE(pm[0].word[0], 7); // expect: persistency-race
  pthread_mutex_lock(&mutex);
  is_stored = 1;
  pthread_cond_signal(&stored);
  pthread_mutex_unlock(&mutex);
  await_turn(2);
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
