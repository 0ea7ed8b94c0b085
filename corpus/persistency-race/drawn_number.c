/* A thread draws a number from a counter that another one has not made durable yet, by an addition that reads it. */
// variants: clwb clflushopt
// build: -pthread
// check: --loads
#include "../pm.h"
#include "../turns.h"

static struct line *pm;

static void *client(void *unused) {
  await_turn(0);
  unsigned long number = 1;
  __asm__ volatile("xaddq %0, %1" : "+r"(number), "+m"(pm[0].word[0]));
  STORE(pm[1].word[0], number);
  FLUSH(pm[1]);
  FLUSH(pm[0]);
  FENCE(); // expect: fence-orders-many
  end_turn();
  return unused;
}

static void *server(void *unused) {
  await_turn(1);
  STORE(pm[0].word[0], 7); // expect: persistency-race
  PERSIST(pm[0]);
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  LOAD(pm[0].word[0]);
  run_threads(client, server);
  return argc - 2;
}
