/* A method of a class stores. */
#include "../pm.h"
#include <cstddef>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

struct Counter {
  uint64_t count;
  char gap[56];
  uint64_t total;

  void add(uint64_t n) {
    count += n;
    total += n;
    // repair: flush(&total, sizeof total);
    persist(&count, sizeof count);
  }
};

int main(int argc, char **argv) {
  auto *counter = reinterpret_cast<Counter *>(map_pool(argv[1]));
  persist(counter, sizeof *counter);
  counter->add(2);
  counter->add(3);
  return 0;
}
