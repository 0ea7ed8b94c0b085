/* libpmem in a loop: a log of records, each with a key, a text and a checksum, appended with pmem_memcpy_persist, and an
 * index whose words are stored and persisted.
 *
 * @flags -O2 -lpmem
 */
#include <libpmem.h>
#include <stddef.h>
#include "pm/pm.h"

struct record {
  uint64_t sequence, checksum;
  uint32_t length;
  char text[236];
};

static uint64_t checksum(const char *text, size_t length) {
  uint64_t state = 14695981039346656037UL;
  for (size_t i = 0; i < length; i++) state = (state ^ (unsigned char)text[i]) * 1099511628211UL;
  return state;
}

int main(int argc, char **argv) {
  enum { SIZE = 64 << 20, RECORDS = 300000, LOG = 48 << 20 };
  static const char *const verbs[] = {"created", "renamed", "opened for writing", "closed", "removed"};
  char path[4096];
  size_t size, at = 0;
  int is_pmem;
  snprintf(path, sizeof path, "%s/file", directory_of(argc, argv));
  char *map = pmem_map_file(path, SIZE, PMEM_FILE_CREATE, 0600, &size, &is_pmem);
  check(map);
  uint64_t *index = (uint64_t *)(map + LOG);
  for (unsigned i = 0; i < RECORDS; i++) {
    struct record record = {.sequence = i};
    uint64_t key = i * 7919UL % 65536;
    int length = snprintf(record.text, sizeof record.text, "user%u: file%lu was %s by process %u", i % 50, key, verbs[i % 5], i % 900);
    record.length = (uint32_t)length;
    record.checksum = checksum(record.text, (size_t)length);
    size_t bytes = (offsetof(struct record, text) + (size_t)length + 7) & ~7UL;
    if (at + bytes > LOG) at = 0;
    pmem_memcpy_persist(map + at, &record, bytes);
    index[key] = at;
    pmem_persist(&index[key], sizeof index[key]);
    at += bytes;
  }
  pmem_unmap(map, size);
  return 0;
}
