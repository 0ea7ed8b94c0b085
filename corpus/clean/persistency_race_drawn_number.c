/* A thread draws a number from a counter that another one makes durable before it releases the lock. */
// variants: clwb clflush
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct line *pm;

static void *client(void *unused) {
  await_turn(0);
  pthread_mutex_lock(&mutex);
  LOAD(pm[0].word[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  await_turn(2);
  unsigned long number = 1;
  pthread_mutex_lock(&mutex);
  __asm__ volatile("xaddq %0, %1" : "+r"(number), "+m"(pm[0].word[0]));
  PERSIST(pm[0]);
  pthread_mutex_unlock(&mutex);
  STORE(pm[1].word[0], number);
  PERSIST(pm[1]);
  return unused;
}

static void *server(void *unused) {
  await_turn(1);
  pthread_mutex_lock(&mutex);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  pthread_mutex_unlock(&mutex);
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(client, server);
  return argc - 2;
}
