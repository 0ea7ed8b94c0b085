/* Shadow paging switches to the new page before the page is complete. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct page {
  uint64_t version, data, sum;
};

struct pool {
  uint64_t current;
  struct page pages[2];
};

static void update(struct pool *pool, uint64_t data) {
  uint64_t shadow = !pool->current;
  struct page *page = &pool->pages[shadow];
  SET(page->version, pool->pages[pool->current].version + 1);
  SET(page->data, data);
  SET(pool->current, shadow); // expect: recovery-failed
  SET(page->sum, page->version + data); // missing-store: recovery-failed
}

static int recover(const struct pool *pool) {
  const struct page *page = &pool->pages[pool->current];
  REQUIRE(page->sum == page->version + page->data);
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  for (uint64_t i = 1; i < 4; i++)
    update(pool, i * 7);
  return 0;
}
