/* The reader makes durable what it has read before it acts on it. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  uint64_t read = LOAD(pm[0].word[0]);
  PERSIST(pm[0]);
  STORE(pm[1].word[0], read);
  PERSIST(pm[1]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(0);
  STORE(pm[0].word[0], 0x1234567);
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
