/* A semaphore serves as a lock, and the store is made durable before it is posted. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"
#include <semaphore.h>

static sem_t semaphore;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(0);
  sem_wait(&semaphore);
  LOAD(pm[0].word[0]);
  sem_post(&semaphore);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  sem_wait(&semaphore);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  sem_post(&semaphore);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  sem_init(&semaphore, 0, 1);
  run_threads(reader, writer);
  return argc - 2;
}
