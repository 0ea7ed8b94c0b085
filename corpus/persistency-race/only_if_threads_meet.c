/* A reader that comes while a batch is being made durable reads it. One that comes earlier or later reads nothing. */
// build: -pthread
// check: --schedules 8
#include "../pm.h"
#include "../turns.h"

static struct line *pm;
static volatile int written;

static void *reader(void *unused) {
  if (written)
    LOAD(pm[20].word[0]);
  return unused;
}

static void *writer(void *unused) {
  for (int i = 0; i < 30; i++)
    STORE(pm[i].word[0], i + 1); // expect: persistency-race
  written = 1;
  for (int i = 0; i < 30; i++)
    PERSIST(pm[i]);
  written = 0;
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(writer, reader);
  return argc - 2;
}
