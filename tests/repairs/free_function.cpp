/* A function of C++ serves volatile and persistent memory: it is copied for the call with persistent memory. */
#include "../pm.h"

namespace store {

static inline void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

__attribute__((noinline)) void put(uint64_t *table, uint64_t key) {
  auto slot = key % 5;
  table[slot] += key;
}
// repair: __attribute__((noinline)) void put_persistent(uint64_t *table, uint64_t key) {
// repair:   auto slot = key % 5;
// repair:   table[slot] += key;
// repair:   flush(&table[slot], 8);
// repair: }

} // namespace store

int main(int argc, char **argv) {
  auto *pm = map_pool(argv[1]);
  uint64_t cache[5] = {};
  store::flush(pm, sizeof *pm);
  FENCE();
  for (int i = 0; i < 50; i++)
    store::put(cache, i);
  store::put(pm->word, argc + 1); // broken
  // repair: store::put_persistent(pm->word, argc + 1);
  FENCE();
  return cache[0] == 0;
}
