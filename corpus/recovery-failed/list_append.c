/* A node is linked into the list before it is filled. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct node {
  uint64_t next, value;
};

static void append(struct node *pool, uint64_t node, uint64_t value) {
  uint64_t last = 0;
  while (pool[last].next != 0)
    last = pool[last].next;
  SET(pool[last].next, node); // expect: recovery-failed
  SET(pool[node].value, value); // missing-store: recovery-failed
}

static int recover(const struct node *pool) {
  for (uint64_t node = pool->next; node != 0; node = pool[node].next)
    REQUIRE(pool[node].value == 100 + node);
  return 0;
}

int main(int argc, char **argv) {
  struct node *pool = (struct node *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t node = 1; node < 5; node++)
    append(pool, node, 100 + node);
  return 0;
}
