/* A flush suffices where a fence follows: the function has one for the other field. */
#include "../pm.h"

struct store {
  uint64_t end;
  char gap[56];
  uint64_t entries;
};

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

int main(int argc, char **argv) {
  struct store *store = (struct store *)map_pool(argv[1]);
  persist(store, sizeof *store);
  store->end = 64;
  store->entries += 1;
  // repair: flush(&store->entries, sizeof store->entries);
  persist(&store->end, sizeof store->end);
  return 0;
}
