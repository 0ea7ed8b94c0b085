/* To change a value, a table removes the key and inserts it anew. After a crash in between the table is sound, and
 * only who knows which operations were done can tell that a key is missing: it was never removed. */
// check: --op operate --occurrences 10
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { KEYS = 4, OPERATIONS = 10 };

struct table {
  uint64_t values[KEYS]; /* 0 where the key is not there */
};

static void put(struct table *table, uint64_t key, uint64_t value) {
  if (table->values[key] != 0)
    SET(table->values[key], 0); // expect: recovery-failed
  SET(table->values[key], value); // missing-store: recovery-failed
}

/* Operation `number` of the workload. */
__attribute__((noinline)) static void operate(struct table *table, uint64_t number) {
  put(table, number % KEYS, 100 + number);
}

/* What the table must hold when the first `done` operations are done, and no other is. */
static int is_after(const struct table *table, uint64_t done) {
  for (uint64_t key = 0; key < KEYS; key++) {
    uint64_t value = 0;
    for (uint64_t number = key; number < done; number += KEYS)
      value = 100 + number;
    if (table->values[key] != value)
      return 0;
  }
  return 1;
}

static int recover(const struct table *table) {
  uint64_t done = atoi(getenv("BROWNOUT_OP"));
  int active = atoi(getenv("BROWNOUT_OP_ACTIVE"));
  REQUIRE(is_after(table, done) || (active && is_after(table, done + 1)));
  return 0;
}

int main(int argc, char **argv) {
  struct table *table = (struct table *)map_pool(argv[1]);
  if (argc > 2)
    return recover(table);
  for (uint64_t number = 0; number < OPERATIONS; number++)
    operate(table, number);
  return 0;
}
