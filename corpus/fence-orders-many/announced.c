/* A record and its announcement share a fence: the announcement may be durable alone, and recovery trusts it. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  if (argc > 2) {
    REQUIRE(!pm[1].word[0] || pm[0].word[0] == 42);
    return 0;
  }
  STORE(pm[0].word[0], 42);
  FLUSH(pm[0]);
  STORE(pm[1].word[0], 1);
  FLUSH(pm[1]);
  FENCE(); // confirmed: fence-orders-many
  return 0;
}
