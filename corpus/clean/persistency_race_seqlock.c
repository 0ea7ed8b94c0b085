/* A reader makes what it has read durable before it accepts it. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static volatile unsigned sequence;
static struct line *pm;

static void *reader(void *unused) {
  unsigned before;
  await_turn(1);
  do {
    while ((before = sequence) % 2)
      sched_yield();
    LOAD(pm[0].word[0]);
    PERSIST(pm[0]);
  } while (sequence != before);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(0);
  sequence = sequence + 1;
  STORE(pm[0].word[0], 7);
  sequence = sequence + 1;
  end_turn();
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
