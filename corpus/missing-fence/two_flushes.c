/* A function flushes two lines and forgets the fence: one mistake. */
// variants: clwb clflushopt
// causes: 1
#include "../pm.h"

static void save(struct line *pm) {
  STORE(pm[0].word[0], 1);
  STORE(pm[1].word[0], 2);
  FLUSH(pm[0]); // expect: missing-fence
  FLUSH(pm[1]); // expect: missing-fence
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  save(pm);
  return munmap(pm, POOL_SIZE);
}
