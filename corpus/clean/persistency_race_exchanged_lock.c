/* A word that two threads set and clear by exchanges is a lock. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void acquire(void) {
  while (__atomic_exchange_n(&pm[0].word[0], 1, __ATOMIC_SEQ_CST))
    sched_yield();
  PERSIST(pm[0]);
}

static void release(void) { XCHG(pm[0].word[0], 0); }

static void *reader(void *unused) {
  await_turn(0);
  acquire();
  LOAD(pm[1].word[0]);
  release();
  PERSIST(pm[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  acquire();
  STORE(pm[1].word[0], 7);
  PERSIST(pm[1]);
  release();
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
