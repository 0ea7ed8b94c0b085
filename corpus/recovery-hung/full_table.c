/* A search ends at an empty slot. To rename a key, the table takes the new one in before it lets the old one go, and
 * has no empty slot for a moment: recovery searches without end. */
// levels: O2
// check: --recover-time-limit 300ms
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { SLOTS = 4 };

static uint64_t slot_of(const volatile uint64_t *table, uint64_t key) {
  uint64_t at = key % SLOTS;
  while (table[at] != key && table[at] != 0)
    at = (at + 1) % SLOTS;
  return at;
}

static void rename_key(uint64_t *table, uint64_t from, uint64_t to) {
  uint64_t old = slot_of(table, from);
  SET(table[slot_of(table, to)], to); // expect: recovery-hung
  SET(table[old], 0); // missing-store: recovery-hung
}

static int recover(const uint64_t *table) {
  return table[slot_of(table, 99)] == 99;
}

int main(int argc, char **argv) {
  uint64_t *table = (uint64_t *)map_pool(argv[1]);
  if (argc > 2)
    return recover(table);
  for (uint64_t key = 4; key < 7; key++)
    SET(table[slot_of(table, key)], key);
  rename_key(table, 6, 11);
  return 0;
}
