/* A loop fills an array: one flush of the array after the loop, not one in each iteration. */
#include "../pm.h"

struct table {
  uint64_t size;
  uint64_t slot[255];
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void clear(struct table *table, unsigned size) {
  for (unsigned i = 0; i < size; i++)
    table->slot[i] = i + 1;
  // repair: flush(table->slot, size * sizeof table->slot[0]);
  table->size = size;
  flush(&table->size, sizeof table->size);
  FENCE();
}

int main(int argc, char **argv) {
  struct table *table = (struct table *)map_pool(argv[1]);
  flush(table, sizeof *table);
  FENCE();
  clear(table, 200 + argc);
  return 0;
}
