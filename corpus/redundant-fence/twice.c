/* A second fence with nothing to wait for. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  SFENCE(); // expect: redundant-fence
  return 0;
}
