/* What the C library copies is its caller's business, also if it is part of the program. */
// build: -fno-builtin -static
#include "../pm.h"
#include <string.h>

static const char NAME[40] = "a name that is longer than a word";

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  memcpy(&pm[0].word[1], NAME, sizeof NAME); // expect: missing-flush
  memset(&pm[0].word[6], 1, 16);             // expect: missing-flush
  return 0;
}
