/* Two threads fill one table, one at a time; each claims a slot before it writes the entry. */
// build: -pthread
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <pthread.h>

struct table {
  uint64_t length, values[16];
};

static struct table *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *value) {
  for (int i = 0; i < 4; i++) {
    pthread_mutex_lock(&lock);
    uint64_t place = table->length;
    SET(table->length, place + 1); // expect: recovery-failed
    SET(table->values[place], (uint64_t)value); // missing-store: recovery-failed
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static int recover(void) {
  for (uint64_t place = 0; place < table->length; place++)
    REQUIRE(table->values[place] == 7 || table->values[place] == 8);
  return 0;
}

int main(int argc, char **argv) {
  table = (struct table *)map_pool(argv[1]);
  if (argc > 2)
    return recover();
  pthread_t threads[2];
  for (uint64_t i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, work, (void *)(7 + i));
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
