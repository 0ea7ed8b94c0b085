/* An object keeps the place of its last search, which no recovery needs, among its durable members. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct Index {
  alignas(64) uint64_t keys[8];
  alignas(64) uint64_t cursor;

  void insert(int at, uint64_t key) {
    STORE(keys[at], key);
    PERSIST(keys[at]);
    STORE(cursor, at); // expect: transient-data
  }
};

int main(int argc, char **argv) {
  Index *index = reinterpret_cast<Index *>(map_pool(argv[1]));
  for (int at = 1; at < 8; at++)
    index->insert(at, at * 10);
  return 0;
}
