/* A pool is built under another name and gets its own when its last word is durable. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  uint64_t size, valid;
};

/* There is no pool before it is complete. */
static int recover(const char *path) {
  if (access(path, F_OK) != 0)
    return 0;
  const struct pool *pool = (const struct pool *)map_pool(path);
  REQUIRE(pool->valid && pool->size == 3);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2)
    return recover(argv[1]);
  char building[4096];
  snprintf(building, sizeof building, "%s.building", argv[1]);
  struct pool *pool = (struct pool *)map_pool(building);
  SET(pool->size, 3);
  SET(pool->valid, 1);
  if (rename(building, argv[1]) != 0)
    return 1;
  return 0;
}
