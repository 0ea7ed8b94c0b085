/* A pool is built under another name, renamed, and then used: two words that belong together are stored in the wrong
 * order. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t valid, finished, result;
};

static void work(struct pool *pool) {
  SET(pool->finished, 1); // expect: recovery-failed
  SET(pool->result, 42); // missing-store: recovery-failed
}

/* There is no pool before it is complete. */
static int recover(const char *path) {
  if (access(path, F_OK) != 0)
    return 0;
  const struct pool *pool = (const struct pool *)map_pool(path);
  REQUIRE(pool->valid);
  REQUIRE(!pool->finished || pool->result == 42);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return recover(argv[1]);
  char building[4096];
  snprintf(building, sizeof building, "%s.building", argv[1]);
  struct pool *pool = (struct pool *)map_pool(building);
  SET(pool->valid, 1);
  if (rename(building, argv[1]) != 0)
    return 1;
  work(pool);
  return 0;
}
