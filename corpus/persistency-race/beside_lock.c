/* A count is durable only after the lock is released that is in the same eight bytes. */
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

struct counter {
  uint32_t lock, count;
};

static struct counter *counter;

static void acquire(void) {
  while (__atomic_exchange_n(&counter->lock, 1, __ATOMIC_ACQUIRE))
    sched_yield();
  PERSIST(counter->lock);
}

static void release(void) {
  __atomic_store_n(&counter->lock, 0, __ATOMIC_RELEASE);
  PERSIST(counter->lock); // expect: flush-covers-many
}

static void *reader(void *unused) {
  await_turn(0);
  acquire();
  LOAD(counter->count);
  release();
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  await_turn(1);
  acquire();
  MOV(counter->count, 7); // expect: persistency-race
  release();
  return unused;
}

int main(int argc, char **argv) {
  counter = (struct counter *)map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
