/* The checksum of a log entry leaves the value out, so that an entry without its value is taken as whole. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct entry {
  uint64_t key, checksum, value;
};

static uint64_t checksum(uint64_t key, uint64_t value) {
  uint64_t hash = 0xcbf29ce484222325;
  hash = (hash ^ key) * 0x100000001b3;
  (void)value;
  return hash;
}

static void append(struct entry *entry, uint64_t key, uint64_t value) {
  SET(entry->key, key);
  SET(entry->checksum, checksum(key, value)); // expect: recovery-failed
  SET(entry->value, value); // missing-store: recovery-failed
}

/* The log ends at the first entry that is not whole. */
static int recover(const struct entry *entry) {
  for (; entry->checksum == checksum(entry->key, entry->value); entry++)
    REQUIRE(entry->value == entry->key * 10);
  return 0;
}

int main(int argc, char **argv) {
  struct entry *log = (struct entry *)map_pool(argv[1]);
  if (argc > 2)
    return recover(log);
  for (uint64_t key = 1; key < 5; key++)
    append(&log[key - 1], key, key * 10);
  return 0;
}
