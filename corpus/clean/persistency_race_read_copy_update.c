/* Readers follow a pointer in ordinary memory, which is set when the one in persistent memory is durable. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *volatile current;
static struct line *pm;

static void *reader(void *unused) {
  await_turn(1);
  struct line *version = current;
  LOAD(version->word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  STORE(pm[4].word[0], 7);
  PERSIST(pm[4]);
  await_turn(0);
  STORE(pm[0].word[0], (uint64_t)&pm[4]);
  PERSIST(pm[0]);
  current = &pm[4];
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
