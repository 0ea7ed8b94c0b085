/* A fence between store and flush orders nothing that matters for durability. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  MFENCE(); // expect: redundant-fence
  PERSIST(pm[0]);
  return 0;
}
