/* Readers without a lock follow the pointer to the new version before it is durable. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  struct line *version = (struct line *)LOAD(pm[0].word[0]);
  LOAD(version->word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  STORE(pm[4].word[0], 7);
  PERSIST(pm[4]);
  await_turn(0);
  STORE(pm[0].word[0], (uint64_t)&pm[4]); // expect: persistency-race
  end_turn();
  await_turn(2);
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
