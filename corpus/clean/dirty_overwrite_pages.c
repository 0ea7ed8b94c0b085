/* A page is brought into shape in place, then written back: only what it holds in the end is meant. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t generation = 1; generation < 4; generation++) {
    for (int word = 0; word < 8; word++)
      MOV(pm[1].word[word], 0);
    for (int word = 0; word < 8; word++)
      MOV(pm[1].word[word], generation);
    if (msync(pm, 4096, MS_SYNC) != 0)
      return 1;
  }
  return 0;
}
