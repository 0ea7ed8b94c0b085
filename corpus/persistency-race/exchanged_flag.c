/* A flag that a thread sets and clears by exchanges is no lock, and visible before it is durable. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  await_turn(0);
  LOAD(pm[0].word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  XCHG(pm[0].word[0], 1); // known-miss: persistency-race because the flag is taken for a lock
  PERSIST(pm[0]);
  STORE(pm[1].word[0], 7);
  PERSIST(pm[1]);
  XCHG(pm[0].word[0], 0); // known-miss: persistency-race because the flag is taken for a lock
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
