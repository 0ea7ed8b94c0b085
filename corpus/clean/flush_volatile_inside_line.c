/* The address of a flush need not be that of the line, nor that of the store. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[1], 1);
  PERSIST(((char *)pm)[63]);
  STORE(pm[POOL_LINES - 1].word[7], 1);
  PERSIST(((char *)pm)[POOL_SIZE - 1]);
  return 0;
}
