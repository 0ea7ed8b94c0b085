/* Zero is stored where a fresh file has zeros anyway. In a file that was used before, it would be lost. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 7);
  PERSIST(pm[0]);
  STORE(pm[1].word[0], 0); // expect: transient-data
  return 0;
}
