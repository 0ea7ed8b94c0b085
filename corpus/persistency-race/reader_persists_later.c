/* The reader acts on what it has read, makes that durable itself only then, and reads it again. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  for (int round = 1; round < 3; round++) {
    STORE(pm[round].word[0], LOAD(pm[0].word[0]));
    FLUSH(pm[round]);
    PERSIST(pm[0]); // expect: fence-orders-many, redundant-flush
  }
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(0);
  STORE(pm[0].word[0], 0x1234567); // expect: persistency-race
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
