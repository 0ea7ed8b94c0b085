/* The writer holds the lock as a reader does, which excludes no other reader. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(0);
  pthread_rwlock_rdlock(&rwlock);
  LOAD(pm[0].word[0]);
  pthread_rwlock_unlock(&rwlock);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  pthread_rwlock_rdlock(&rwlock);
  STORE(pm[0].word[0], 7); // expect: persistency-race
  PERSIST(pm[0]);
  pthread_rwlock_unlock(&rwlock);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
