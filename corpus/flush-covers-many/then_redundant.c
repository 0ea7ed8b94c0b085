/* Each of two fields is made durable, but the first flush covers both and the second nothing. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  STORE(pm[0].word[7], 2);
  PERSIST(pm[0].word[0]); // expect: flush-covers-many
  PERSIST(pm[0].word[7]); // expect: redundant-flush
  return 0;
}
