/* A record is flushed and fenced before clflush makes its announcement durable at once. */
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
  FENCE();
  STORE(pm[1].word[0], 1);
  CLFLUSH(pm[1]);
  return 0;
}
