/* A list in ordinary memory says which locks recovery has to release. It is empty after a crash. */
// check: --strategy exhaustive
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { NODES = 2 };

struct pool {
  struct line lock[NODES], value[NODES];
};

static uint64_t held[NODES], held_count;

static void update(struct pool *pool, uint64_t node) {
  held[held_count++] = node;
  SET(pool->lock[node].word[0], 1); // expect: recovery-failed
  SET(pool->value[node].word[0], 1);
  SET(pool->lock[node].word[0], 0); // expect: recovery-failed // missing-store: recovery-failed
  held_count--;
}

static int recover(struct pool *pool) {
  while (held_count > 0)
    SET(pool->lock[held[--held_count]].word[0], 0);
  for (uint64_t node = 0; node < NODES; node++)
    REQUIRE(pool->lock[node].word[0] == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t node = 0; node < NODES; node++)
    update(pool, node);
  return 0;
}
