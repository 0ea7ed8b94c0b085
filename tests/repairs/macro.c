/* The stores are made by a macro, whose definition says what to flush. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 2);
  // repair: FLUSH(pm[0].word[0]);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  return 0;
}
