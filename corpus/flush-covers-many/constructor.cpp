/* A constructor sets three members of one line and flushes once. */
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <new>

struct Node {
  uint64_t key, value, next;

  Node(uint64_t key_, uint64_t value_) {
    STORE(key, key_);
    STORE(value, value_);
    STORE(next, 64);
    FLUSH(*this); // expect: flush-covers-many
    FENCE();
  }
};

int main(int argc, char **argv) {
  new (map_pool(argv[1])) Node(1, 2);
  return 0;
}
