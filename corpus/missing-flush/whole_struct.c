/* An update fills a record in four lines and is never flushed: one mistake. */
// causes: 1
#include "../pm.h"

struct record {
  uint64_t key, value, size, stamp;
};

static __attribute__((noinline)) void update(struct record *record, uint64_t to) {
  STORE(record->key, to);       // expect: missing-flush
  STORE(record->value, to + 1); // expect: missing-flush
  STORE(record->size, to + 2);  // expect: missing-flush
  STORE(record->stamp, to + 3); // expect: missing-flush
}

int main(int argc, char **argv) {
  struct record *record = (struct record *)map_pool(argv[1]);
  STORE(record->key, 1);
  PERSIST(*record);
  update(record, 2);
  return 0;
}
