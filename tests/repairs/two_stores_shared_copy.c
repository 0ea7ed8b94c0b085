/* Two stores of a function that is copied are flushed in one copy, which two calls share. */
#include "../pm.h"

struct entry {
  uint64_t key;
  char pad[56];
  uint64_t value;
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void put(struct entry *table, uint64_t key) {
  struct entry *entry = &table[key % 3];
  entry->key = key;
  entry->value = key * 2;
}
// repair: static __attribute__((noinline)) void put_persistent(struct entry *table, uint64_t key) {
// repair:   struct entry *entry = &table[key % 3];
// repair:   entry->key = key;
// repair:   flush(&entry->key, 8);
// repair:   entry->value = key * 2;
// repair:   flush(&entry->value, 8);
// repair: }

int main(int argc, char **argv) {
  struct entry *pm = (struct entry *)map_pool(argv[1]);
  struct entry cache[3] = {0};
  flush(pm, 4 * sizeof *pm);
  FENCE();
  for (int i = 0; i < 30; i++)
    put(cache, i);
  put(pm, argc); // broken
  // repair: put_persistent(pm, argc);
  put(pm, argc + 1); // broken
  // repair: put_persistent(pm, argc + 1);
  FENCE();
  return cache[0].key == 7;
}
