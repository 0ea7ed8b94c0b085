/* A node is free in the bitmap before it is out of the list: it could be handed out while it is in use. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t used, head, next[8];
};

static void push(struct pool *pool, uint64_t node) {
  SET(pool->used, pool->used | 1 << node);
  SET(pool->next[node], pool->head);
  SET(pool->head, node);
}

static void pop(struct pool *pool) {
  uint64_t node = pool->head;
  SET(pool->used, pool->used & ~(1ull << node)); // expect: recovery-failed
  SET(pool->head, pool->next[node]); // missing-store: recovery-failed
}

/* What is used and not in the list was lost between the two steps, and is free again. */
static int recover(struct pool *pool) {
  uint64_t reached = 0;
  for (uint64_t node = pool->head; node != 0; node = pool->next[node])
    reached |= 1 << node;
  REQUIRE((reached & ~pool->used) == 0);
  SET(pool->used, reached);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t node = 1; node < 4; node++)
    push(pool, node);
  pop(pool);
  return 0;
}
