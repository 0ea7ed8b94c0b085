/* A record is announced before it is durable, and recovery trusts the announcement. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void add(struct line *record, struct line *valid) {
  STORE(record->word[0], 42); // confirmed: delayed-persist
  SET(valid->word[0], 1);
  PERSIST(record->word[0]);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(!pm[1].word[0] || pm[0].word[0] == 42);
    return 0;
  }
  add(&pm[0], &pm[1]);
  return 0;
}
