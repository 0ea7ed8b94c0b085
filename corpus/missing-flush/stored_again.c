/* A word is changed after it was made durable, and the change is never flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[1].word[0], 2);
  PERSIST(pm[1]);
  STORE(pm[0].word[0], 3); // expect: missing-flush
  return 0;
}
