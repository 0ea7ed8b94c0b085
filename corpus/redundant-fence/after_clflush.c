/* clflush is in order by itself and needs no fence. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  MOV(pm[0].word[0], 1);
  CLFLUSH(pm[0]);
  SFENCE(); // expect: redundant-fence
  return 0;
}
