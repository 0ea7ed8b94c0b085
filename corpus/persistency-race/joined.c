/* The store is made durable when the thread is joined that has read it. */
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
  STORE(pm[0].word[0], 7); // expect: persistency-race
  pthread_create(&thread, NULL, reader, NULL);
  pthread_join(thread, NULL);
  PERSIST(pm[0]);
  return argc - 2;
}
