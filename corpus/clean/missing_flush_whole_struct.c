/* An update fills a record in four lines and makes each of them persistent. */
#include "../recovery.h"

struct record {
  uint64_t key, value, size, stamp;
};

static __attribute__((noinline)) void update(struct record *record, uint64_t to) {
  SET(record->key, to);
  SET(record->value, to + 1);
  SET(record->size, to + 2);
  SET(record->stamp, to + 3);
}

int main(int argc, char **argv) {
  struct record *record = (struct record *)map_pool(argv[1]);
  SET(record->key, 1);
  update(record, 2);
  return 0;
}
