/* The store that another thread reads is never flushed: one mistake, which two rules report. */
// build: -pthread
// check: --loads
// causes: 1
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  LOAD(pm[0].word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(0);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 8); // expect: missing-flush, persistency-race
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
