/* A record is durable before the count that makes it valid is stored, whatever kind of lock there is. */
// variants: clwb clflushopt
#include "../pm.h"

static uint64_t lock;

static void append(struct line *count, struct line *records, uint64_t value) {
  struct line *record = &records[count->word[0]];
  STORE(record->word[0], value);
  PERSIST(*record);
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
