/* A hash table publishes a key before its value is there. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { SLOTS = 16 };

struct slot {
  uint64_t key, value;
};

static void insert(struct slot *table, uint64_t key, uint64_t value) {
  uint64_t at = key * 7 % SLOTS;
  while (table[at].key != 0)
    at = (at + 1) % SLOTS;
  SET(table[at].key, key); // expect: recovery-failed
  SET(table[at].value, value); // missing-store: recovery-failed
}

static int recover(const struct slot *table) {
  for (int at = 0; at < SLOTS; at++)
    REQUIRE(table[at].key == 0 || table[at].value == table[at].key * table[at].key);
  return 0;
}

int main(int argc, char **argv) {
  struct slot *table = (struct slot *)map_pool(argv[1]);
  if (argc > 2)
    return recover(table);
  for (uint64_t key = 1; key < 6; key++)
    insert(table, key, key * key);
  return 0;
}
