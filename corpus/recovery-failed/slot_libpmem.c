/* A slot is valid before its text is there. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <libpmem.h>
#include <string.h>

struct slot {
  char text[32];
  uint64_t valid __attribute__((aligned(64)));
};

static const char NAMES[3][32] = {"name-of-the-first", "name-of-the-second", "name-of-the-third"};

static void put(struct slot *slot, const char *text) {
  STORE(slot->valid, 1);
  pmem_persist(&slot->valid, sizeof slot->valid); // expect: recovery-failed
  pmem_memcpy_persist(slot->text, text, sizeof slot->text); // expect: recovery-failed // missing-store: recovery-failed
}

static int recover(const struct slot *slots) {
  for (; slots->valid; slots++)
    REQUIRE(strncmp(slots->text, "name-", 5) == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct slot *slots = (struct slot *)pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (slots == NULL)
    return 1;
  if (argc > 2)
    return recover(slots);
  for (int i = 0; i < 3; i++)
    put(&slots[i], NAMES[i]);
  return pmem_unmap(slots, POOL_SIZE);
}
