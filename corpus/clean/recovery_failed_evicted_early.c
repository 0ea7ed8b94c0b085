/* A flag says that a record is there. It is stored when the record is durable. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

static void add(struct line *pm, uint64_t at) {
  STORE(pm[8 + at].word[0], at + 40);
  PERSIST(pm[8 + at]);
  STORE(pm[at].word[0], 1);
  PERSIST(pm[at]);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    for (uint64_t at = 0; at < 3; at++)
      REQUIRE(!pm[at].word[0] || pm[8 + at].word[0] == at + 40);
    return 0;
  }
  for (uint64_t at = 0; at < 3; at++)
    add(pm, at);
  return 0;
}
