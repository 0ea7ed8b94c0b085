/* The constructor's value is overwritten by the first setter, before anything is flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <new>

struct Cell {
  uint64_t value;

  Cell() {
    STORE(value, 1); // expect: dirty-overwrite
  }
  void set(uint64_t next) {
    STORE(value, next);
    PERSIST(value);
  }
};

int main(int argc, char **argv) {
  Cell *cell = new (map_pool(argv[1])) Cell;
  cell->set(2);
  cell->set(3);
  return 0;
}
