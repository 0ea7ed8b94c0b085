/* The page with the root is synced before the page that the root points to. */
// check: --model msync
#include "../pm.h"

struct pool {
  struct line *root;
  char gap[4088];
  struct line page[64];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  STORE(pool->page[0].word[0], 1);
  STORE(pool->page[0].word[1], 2);
  STORE(pool->root, pool->page); // expect: unpersisted-target
  return msync(&pool->root, 4096, MS_SYNC) | msync(pool->page, 4096, MS_SYNC);
}
