/* An entry has two copies of its value, and recovery needs one of them. The flag is stored before the copies are durable: the cache
 * may write back its line before both of theirs. Losing one copy alone does no harm. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct entry {
  struct line copy[2];
  struct line valid;
};

static void add(struct entry *entry, uint64_t value) {
  STORE(entry->copy[0].word[0], value); // missing-store: recovery-failed
  STORE(entry->copy[1].word[0], value);
  STORE(entry->valid.word[0], 1);
  PERSIST(entry->copy[0]); // expect: recovery-failed
  PERSIST(entry->copy[1]);
  PERSIST(entry->valid);
}

int main(int argc, char **argv) {
  struct entry *entries = (struct entry *)map_pool(argv[1]);
  for (uint64_t at = 0; at < 4; at++) {
    struct entry *entry = &entries[at];
    if (argc > 2)
      REQUIRE(!entry->valid.word[0] || entry->copy[0].word[0] || entry->copy[1].word[0]);
    else
      add(entry, at + 40);
  }
  return 0;
}
