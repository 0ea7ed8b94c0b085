/* One store is durable before the thread is created, another one is made after it was joined. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  LOAD(pm[0].word[0]);
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  pthread_create(&thread, NULL, reader, NULL);
  pthread_join(thread, NULL);
  STORE(pm[0].word[0], 8);
  PERSIST(pm[0]);
  return argc - 2;
}
