/* The index, in a file of its own, counts a record before the file of records has it. */
// args: {dir}/records {dir}/index
// recover: {program} {dir}/records {dir}/index check
#include "../recovery.h"

static void append(struct line *records, struct line *index, uint64_t value) {
  uint64_t record = index->word[0];
  SET(index->word[0], record + 1); // expect: recovery-failed
  SET(records[record].word[0], value); // missing-store: recovery-failed
}

static int recover(const struct line *records, const struct line *index) {
  for (uint64_t record = 0; record < index->word[0]; record++)
    REQUIRE(records[record].word[0] == record + 100);
  return 0;
}

int main(int argc, char **argv) {
  struct line *records = map_pool(argv[1]), *index = map_pool(argv[2]);
  if (argc > 3)
    return recover(records, index);
  for (uint64_t value = 100; value < 104; value++)
    append(records, index, value);
  return 0;
}
