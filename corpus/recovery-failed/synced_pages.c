/* A file kept with msync: the page with the count is synced before the page with what it counts. */
// check: --model msync
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct book {
  uint64_t count __attribute__((aligned(4096)));
  uint64_t pages[512] __attribute__((aligned(4096)));
};

static int add(struct book *book, uint64_t value) {
  uint64_t count = book->count;
  STORE(book->count, count + 1);
  int failed = msync(&book->count, 4096, MS_SYNC); // expect: recovery-failed
  STORE(book->pages[count], value); // missing-store: recovery-failed
  failed |= msync(book->pages, 4096, MS_SYNC);
  return failed;
}

static int recover(const struct book *book) {
  for (uint64_t page = 0; page < book->count; page++)
    REQUIRE(book->pages[page] == page + 40);
  return 0;
}

int main(int argc, char **argv) {
  struct book *book = (struct book *)map_pool(argv[1]);
  if (argc > 2)
    return recover(book);
  int failed = 0;
  for (uint64_t value = 40; value < 43; value++)
    failed |= add(book, value);
  return failed;
}
