/* Eight threads on a persistent hash map with a lock for each bucket: of all operations 30% insert, 30% update, 30% get and 10%
 * delete. The first argument is how many operations there are.
 *
 * @args 1000
 * @flags -O2 -pthread
 */
#include <pthread.h>
#include <stdatomic.h>
#include "pm/pm.h"

enum { THREADS = 8, BUCKETS = 4096, SLOTS = 15, FIRST = 1000 };

struct slot {
  uint64_t key, value;
};

/* The number of slots in use persists after the slots themselves. */
struct bucket {
  uint64_t used, gap;
  struct slot slots[SLOTS];
} __attribute__((aligned(64)));

static struct bucket *buckets;
static pthread_mutex_t locks[BUCKETS];
static long operations;
static atomic_ulong sum;

static void persist(const void *start, size_t length) {
  uintptr_t line = (uintptr_t)start & ~(uintptr_t)63;
  for (; line < (uintptr_t)start + length; line += 64)
    __asm__ volatile("clflush %0" : "+m"(*(volatile char *)line)::"memory");
  __asm__ volatile("sfence" ::: "memory");
}

static struct slot *find(struct bucket *bucket, uint64_t key) {
  for (uint64_t i = 0; i < bucket->used; i++)
    if (bucket->slots[i].key == key) return &bucket->slots[i];
  return NULL;
}

static void put(struct bucket *bucket, uint64_t key, uint64_t value) {
  struct slot *slot = find(bucket, key);
  if (slot) {
    slot->value = value;
    persist(&slot->value, sizeof slot->value);
  } else if (bucket->used < SLOTS) {
    slot = &bucket->slots[bucket->used];
    slot->key = key;
    slot->value = value;
    persist(slot, sizeof *slot);
    bucket->used = bucket->used + 1;
    persist(&bucket->used, sizeof bucket->used);
  }
}

static void take(struct bucket *bucket, uint64_t key) {
  struct slot *slot = find(bucket, key);
  if (!slot) return;
  *slot = bucket->slots[bucket->used - 1];
  persist(slot, sizeof *slot);
  bucket->used = bucket->used - 1;
  persist(&bucket->used, sizeof bucket->used);
}

static void operate(uint64_t random) {
  uint64_t key = 1 + (random >> 20) % 20000, kind = random % 10;
  size_t number = key * 0x9e3779b97f4a7c15 % BUCKETS;
  struct bucket *bucket = &buckets[number];
  pthread_mutex_lock(&locks[number]);
  if (kind < 6) {
    put(bucket, key, random);
  } else if (kind < 9) {
    struct slot *slot = find(bucket, key);
    if (slot) atomic_fetch_add_explicit(&sum, slot->value, memory_order_relaxed);
  } else {
    take(bucket, key);
  }
  pthread_mutex_unlock(&locks[number]);
}

static void *work(void *argument) {
  uint64_t state = (uint64_t)(uintptr_t)argument + 1;
  for (long i = 0; i < operations / THREADS; i++) {
    state = state * 6364136223846793005 + 1442695040888963407;
    operate(state >> 16);
  }
  return NULL;
}

int main(int argc, char **argv) {
  char path[4096];
  check(argc == 3);
  operations = atol(argv[1]);
  snprintf(path, sizeof path, "%s/map", directory_of(argc, argv));
  int file = open(path, O_RDWR | O_CREAT, 0600);
  check(file >= 0 && ftruncate(file, sizeof(struct bucket) * BUCKETS) == 0);
  buckets = mmap(NULL, sizeof(struct bucket) * BUCKETS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  check(buckets != MAP_FAILED);
  for (int i = 0; i < BUCKETS; i++) pthread_mutex_init(&locks[i], NULL);
  for (uint64_t i = 0; i < FIRST; i++) operate(i * 0x9e3779b97f4a7c15 << 4);
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  puts("done");
  return 0;
}
