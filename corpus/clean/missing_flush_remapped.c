/* The mapping moves between store and flush. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[3].word[0], 1);
  struct line *place = mmap(NULL, POOL_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct line *moved = mremap(pm, POOL_SIZE, POOL_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved != place)
    return 1;
  PERSIST(moved[3]);
  return 0;
}
