/* A hash table grows: its new size counts before its new slots do, and keys are looked for where they are not. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t keys, size, current;
  uint64_t slots[2][8];
};

#define SIZE_OF(pool, table) ((pool)->size)

static void insert(uint64_t *slots, uint64_t size, uint64_t key) {
  uint64_t at = key % size;
  while (slots[at] != 0)
    at = (at + 1) % size;
  SET(slots[at], key);
}

static void grow(struct pool *pool) {
  for (int at = 0; at < 4; at++)
    insert(pool->slots[1], 8, pool->slots[0][at]);
  SET(pool->size, 8); // expect: recovery-failed
  SET(pool->current, 1); // missing-store: recovery-failed
}

static int recover(const struct pool *pool) {
  const uint64_t *slots = pool->slots[pool->current], size = SIZE_OF(pool, pool->current);
  for (uint64_t key = 5; key < 5 + pool->keys; key++) {
    uint64_t at = key % size;
    while (slots[at] != key && slots[at] != 0)
      at = (at + 1) % size;
    REQUIRE(slots[at] == key);
  }
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(SIZE_OF(pool, 0), 4);
  for (uint64_t key = 5; key < 9; key++) {
    insert(pool->slots[0], 4, key);
    SET(pool->keys, pool->keys + 1);
  }
  grow(pool);
  return 0;
}
