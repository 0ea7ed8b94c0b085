/* An allocator keeps a count of used blocks in addition to the bitmap, and recovery recomputes the count. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct allocator {
  uint64_t bitmap, used;
};

static int allocate(struct allocator *allocator) {
  int block = __builtin_ctzll(~allocator->bitmap);
  SET(allocator->bitmap, allocator->bitmap | 1ull << block);
  SET(allocator->used, allocator->used + 1);
  return block;
}

static void release(struct allocator *allocator, int block) {
  SET(allocator->bitmap, allocator->bitmap & ~(1ull << block));
  SET(allocator->used, allocator->used - 1);
}

static int recover(struct allocator *allocator) {
  SET(allocator->used, __builtin_popcountll(allocator->bitmap));
  return 0;
}

int main(int argc, char **argv) {
  struct allocator *allocator = (struct allocator *)map_pool(argv[1]);
  if (argc > 2)
    return recover(allocator);
  int first = allocate(allocator);
  allocate(allocator);
  release(allocator, first);
  return 0;
}
