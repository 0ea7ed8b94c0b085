/* A slot is moved by one store to a word that says which slot is used, so there is nothing between. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct bucket {
  uint64_t used; /* a bit for each slot: exactly one, once a value was put */
  uint64_t value[2];
} __attribute__((aligned(64)));

static void put(struct bucket *bucket, uint64_t value) {
  STORE(bucket->value[0], value);
  PERSIST(bucket->value[0]);
  STORE(bucket->used, 1);
  PERSIST(bucket->used);
}

static void update(struct bucket *bucket, uint64_t value) {
  int from = bucket->used == 2;
  STORE(bucket->value[!from], value);
  PERSIST(bucket->value[!from]);
  STORE(bucket->used, from ? 1 : 2);
  PERSIST(bucket->used);
}

int main(int argc, char **argv) {
  struct bucket *bucket = (struct bucket *)map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(bucket->value[1] == 0 || bucket->used == 1 || bucket->used == 2);
    return 0;
  }
  put(bucket, 1);
  for (uint64_t value = 2; value < 6; value++)
    update(bucket, value);
  return 0;
}
