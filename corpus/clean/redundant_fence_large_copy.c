/* The C library copies large blocks of ordinary memory with non-temporal stores and a fence of its own. */
// variants: clwb clflushopt
#include "../pm.h"
#include <string.h>

enum { SIZE = 96 << 20 };

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  char *from = malloc(SIZE), *to = malloc(SIZE);
  if (from == NULL || to == NULL)
    return 1;
  memset(from, 1, SIZE);
  memcpy(to, from, SIZE);
  STORE(pm[0].word[0], to[SIZE - 1]);
  PERSIST(pm[0]);
  return 0;
}
