/* A record is flushed, and only the mutex comes before the index that leads to it: the fence at the end orders both together. */
// variants: clwb clflushopt
// build: -pthread
#include "../pm.h"
#include <pthread.h>

struct record {
  uint64_t number;
} __attribute__((aligned(64)));

struct pool {
  struct line count;
  struct line index[64];
  struct record records[2][16];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pool;

static void *append(void *records_) {
  struct record *record = records_;
  for (uint64_t i = 1; i < 16; i++, record++) {
    STORE(record->number, i);
    FLUSH(*record); // expect: accidental-fence
    pthread_mutex_lock(&mutex);
    uint64_t at = pool->count.word[0];
    STORE(pool->index[at].word[0], (char *)record - (char *)pool);
    PERSIST(pool->index[at]);
    STORE(pool->count.word[0], at + 1);
    PERSIST(pool->count);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pool = (struct pool *)map_pool(argv[1]);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, append, pool->records[i]);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
