/* A store with a snapshot of 400,000 entries and a journal of updates, to crash: each record of the journal is persisted, then the count.
 * As `snapshot_journal create DIR` it writes the snapshot. As `snapshot_journal check DIR` it is the recovery: it verifies the snapshot,
 * which is the same in each image, builds an index of it in ordinary memory, and only then reads the journal.
 *
 * @args create
 * @flags -O2 -lpmem
 */
#include <libpmem.h>
#include <string.h>
#include "pm/pm.h"

enum { SIZE = 64 << 20, ENTRIES = 400000, RECORDS = 600, SLOTS = 1 << 20 };

struct entry {
  uint64_t key, value, check;
  char text[40];
};

struct store {
  struct entry entry[ENTRIES];
  uint64_t count;
  char pad[56];
  struct entry journal[RECORDS];
};

/* The number of an entry plus one, by its key. */
static uint32_t slots[SLOTS];

static uint64_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  return x ^ x >> 33;
}

static uint64_t checksum(const struct entry *entry) {
  uint64_t words[5], sum = mixed(entry->key) ^ entry->value;
  memcpy(words, entry->text, sizeof words);
  for (int i = 0; i < 5; i++) sum = mixed(sum + words[i]);
  return sum;
}

static void fill(struct entry *entry, uint64_t key, uint64_t value) {
  struct entry new = {.key = key, .value = value};
  snprintf(new.text, sizeof new.text, "entry %lu is %lu", key, value);
  new.check = checksum(&new);
  memcpy(entry, &new, sizeof new);
}

static uint32_t *slot_of(const struct store *store, uint64_t key) {
  size_t at = mixed(key) % SLOTS;
  while (slots[at] && store->entry[slots[at] - 1].key != key) at = (at + 1) % SLOTS;
  return &slots[at];
}

static int recover(const struct store *store) {
  for (uint32_t i = 0; i < ENTRIES; i++) {
    if (store->entry[i].check != checksum(&store->entry[i])) return 1;
    *slot_of(store, store->entry[i].key) = i + 1;
  }
  if (store->count > RECORDS) return 2;
  for (uint64_t i = 0; i < store->count; i++) {
    if (store->journal[i].check != checksum(&store->journal[i])) return 3;
    if (!*slot_of(store, store->journal[i].key)) return 4;
  }
  return 0;
}

int main(int argc, char **argv) {
  struct store *store = (struct store *)pm_map(directory_of(argc, argv), "store", SIZE);
  if (argc > 2 && strcmp(argv[1], "check") == 0) return recover(store);
  if (argc > 2 && strcmp(argv[1], "create") == 0) {
    for (uint64_t i = 0; i < ENTRIES; i++) fill(&store->entry[i], i * 7919, i);
    return 0;
  }
  for (uint64_t i = 0; i < RECORDS; i++) {
    fill(&store->journal[i], i * 31 % ENTRIES * 7919, i);
    pmem_persist(&store->journal[i], sizeof store->journal[i]);
    store->count = i + 1;
    pmem_persist(&store->count, sizeof store->count);
  }
  return 0;
}
