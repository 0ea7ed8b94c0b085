/* The fence comes when the file is no longer mapped. */
// variants: clwb clflushopt nt
#include "../pm.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1); // expect[nt]: missing-fence
  FLUSH(pm[0]);            // expect[clwb, clflushopt]: missing-fence
  munmap(pm, POOL_SIZE);
  SFENCE();
  return 0;
}
