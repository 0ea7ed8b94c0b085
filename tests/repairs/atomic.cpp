/* A std::atomic is stored. */
#include "../pm.h"
#include <atomic>
#include <cstddef>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

struct Slot {
  std::atomic<uint64_t> state;
  char gap[56];
  std::atomic<uint64_t> epoch;
};

int main(int argc, char **argv) {
  auto *slot = reinterpret_cast<Slot *>(map_pool(argv[1]));
  persist(slot, sizeof *slot);
  slot->state.store(1, std::memory_order_release);
  // repair: flush(&slot->state, sizeof slot->state);
  slot->epoch.store(2, std::memory_order_release);
  persist(&slot->epoch, sizeof slot->epoch);
  return 0;
}
