/* clflush is in order by itself: two of them need no fence, and their order is not open. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOV(pm[0].word[0], 1);
  CLFLUSH(pm[0]);
  MOV(pm[1].word[0], 2);
  CLFLUSH(pm[1]);
  _exit(0);
}
