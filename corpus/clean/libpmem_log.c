/* An append-only log: an entry is durable before the length that makes it count. */
// build: -lpmem
// env: PMEM_IS_PMEM_FORCE=1
#include "../pm.h"
#include <libpmem.h>

struct log {
  struct line length;
  struct line entries[100];
};

static void append(struct log *log, uint64_t value) {
  uint64_t length = log->length.word[0];
  pmem_memcpy_persist(&log->entries[length].word[0], &value, sizeof value);
  STORE(log->length.word[0], length + 1);
  pmem_persist(&log->length.word[0], 8);
}

int main(int argc, char **argv) {
  struct log *log = pmem_map_file(argv[1], POOL_SIZE, PMEM_FILE_CREATE, 0600, NULL, NULL);
  if (log == NULL)
    return 1;
  for (uint64_t i = 1; i < 10; i++)
    append(log, i * i);
  return pmem_unmap(log, POOL_SIZE);
}
