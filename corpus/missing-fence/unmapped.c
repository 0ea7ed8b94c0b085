/* The pool is unmapped between flush and fence. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[1].word[0], 2); // expect[nt]: missing-fence
  FLUSH(pm[1]);            // expect[clwb, clflushopt]: missing-fence
  munmap(pm, POOL_SIZE);
  _exit(0);
}
