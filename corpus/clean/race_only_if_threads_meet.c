/* A reader that comes while a batch is used reads it, and all of it is durable by then. */
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
  for (int i = 0; i < 30; i++) {
    STORE(pm[i].word[0], i + 1);
    PERSIST(pm[i]);
  }
  __atomic_store_n(&written, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 30; i++)
    LOAD(pm[i].word[0]);
  written = 0;
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(writer, reader);
  return argc - 2;
}
