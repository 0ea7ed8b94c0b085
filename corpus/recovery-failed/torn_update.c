/* A slot is moved by clearing one flag and setting another in the same line, with one flush for both. A crash between the two
 * stores leaves the value in no slot. Every flush and fence is right, and recovery passes at each of them. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct bucket {
  uint64_t used[2]; /* exactly one, once a value was put */
  uint64_t value[2];
} __attribute__((aligned(64)));

static void put(struct bucket *bucket, uint64_t value) {
  STORE(bucket->value[0], value);
  PERSIST(bucket->value[0]);
  STORE(bucket->used[0], 1);
  PERSIST(bucket->used[0]);
}

static void update(struct bucket *bucket, uint64_t value) {
  int from = bucket->used[1] != 0;
  STORE(bucket->value[!from], value);
  PERSIST(bucket->value[!from]);
  STORE(bucket->used[from], 0);
  STORE(bucket->used[!from], 1); // expect: recovery-failed // missing-store: recovery-failed
  PERSIST(*bucket); // expect: flush-covers-many
}

int main(int argc, char **argv) {
  struct bucket *bucket = (struct bucket *)map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(bucket->value[0] == 0 || bucket->used[0] + bucket->used[1] == 1 || bucket->value[1] == 0);
    return 0;
  }
  put(bucket, 1);
  for (uint64_t value = 2; value < 6; value++)
    update(bucket, value);
  return 0;
}
