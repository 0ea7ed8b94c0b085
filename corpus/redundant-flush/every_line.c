/* All lines of an object are made durable though two of them have changed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  for (int i = 0; i < 4; i++)
    PERSIST(pm[i]); // expect: redundant-flush
  STORE(pm[3].word[5], 1);
  for (int i = 3; i >= 0; i--)
    PERSIST(pm[i]); // expect: redundant-flush
  return 0;
}
