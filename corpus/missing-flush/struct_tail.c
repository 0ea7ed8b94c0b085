/* A record reaches into a second line, and an update flushes the first only. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct record {
  char name[56];
  uint64_t size;
  uint64_t stamp; /* the first word of the second line */
};

int main(int argc, char **argv) {
  struct record *record = (struct record *)map_pool(argv[1]);
  STORE(record->size, 1);
  PERSIST(record->size);
  STORE(record->stamp, 1);
  PERSIST(record->stamp);

  STORE(record->size, 2);
  STORE(record->stamp, 2); // expect: missing-flush
  PERSIST(*record);
  return 0;
}
