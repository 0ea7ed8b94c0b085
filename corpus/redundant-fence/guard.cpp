/* An object that fences when its scope ends, although the code in the scope has already fenced. */
// variants: clwb clflushopt nt
#include "../pm.h"

struct Guard {
  ~Guard() {
    SFENCE(); // expect: redundant-fence
  }
};

int main(int argc, char **argv) {
  line *pm = map_pool(argv[1]);
  Guard guard;
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  return 0;
}
