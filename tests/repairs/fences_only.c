/* The author wrote fences only; all flushes are added. */
// check: --pm *pool
#include "../pm.h"
#include <string.h>

struct item {
  uint64_t key;
  uint64_t value;
  char name[48];
};

struct store {
  uint64_t magic;
  uint64_t count;
  uint64_t sum;
  char gap[40];
  uint64_t bucket[64];
  struct item item[32];
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void create(struct store *store) {
  for (int i = 0; i < 64; i++)
    store->bucket[i] = 99;
  // repair: flush(store->bucket, sizeof store->bucket);
  store->count = 0;
  store->sum = 0;
  // repair: flush(&store->count, 16);
  FENCE();
  store->magic = 0x1234;
  // repair: flush(&store->magic, 8);
  FENCE();
}

static __attribute__((noinline)) void set(struct item *item, uint64_t key, const char *name) {
  item->key = key;
  item->value = key * 3;
  strncpy(item->name, name, sizeof item->name);
  // repair: flush(item, sizeof *item);
}

static __attribute__((noinline)) void put(struct store *store, uint64_t key) {
  uint64_t slot = store->count;
  set(&store->item[slot], key, "item");
  FENCE();
  store->bucket[key % 64] = slot;
  // repair: flush(&store->bucket[key % 64], 8);
  FENCE();
  store->count = slot + 1;
  store->sum += key;
  // repair: flush(&store->count, 16);
  FENCE();
}

static __attribute__((noinline)) void drop(struct store *store, uint64_t key) {
  store->bucket[key % 64] = 99;
  // repair: flush(&store->bucket[key % 64], 8);
  FENCE();
}

int main(int argc, char **argv) {
  struct store *store = (struct store *)map_pool(argv[1]);
  (void)flush;
  create(store);
  for (int key = 0; key < 5 + argc; key++)
    put(store, key);
  drop(store, argc);
  return 0;
}
