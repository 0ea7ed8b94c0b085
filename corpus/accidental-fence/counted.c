/* A record is flushed, and only a spinlock comes before the count that makes it valid: the fence at the end orders both together. */
// variants: clwb clflushopt
// compilers: gcc
#include "../pm.h"

static uint64_t lock;

static void append(struct line *count, struct line *records, uint64_t value) {
  struct line *record = &records[count->word[0]];
  STORE(record->word[0], value);
  FLUSH(*record); // expect: accidental-fence
  XCHG(lock, 1);
  STORE(count->word[0], count->word[0] + 1);
  PERSIST(*count);
  XCHG(lock, 0);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t value = 1; value < 5; value++)
    append(&pm[0], &pm[1], value);
  return 0;
}
