/* A constructor fills the object in place; the pointer to it is persistent first. */
// variants: clwb clflushopt
#include "../pm.h"
#include <new>

struct Item {
  uint64_t key, value;
  Item(uint64_t key_, uint64_t value_) {
    STORE(key, key_);
    STORE(value, value_);
  }
};

struct Table {
  Item *slots[8];
  line items[8];

  void insert(int at, uint64_t key) {
    Item *item = new (&items[at]) Item(key, key * 2);
    STORE(slots[at], item); // expect: unpersisted-target
    PERSIST(slots[at]);
    FLUSH(*item); // expect: flush-covers-many
    FENCE();
  }
};

int main(int argc, char **argv) {
  Table *table = reinterpret_cast<Table *>(map_pool(argv[1]));
  for (int at = 0; at < 2; at++)
    table->insert(at, at + 1);
  return 0;
}
