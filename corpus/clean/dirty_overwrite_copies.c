/* The C library copies in pieces that overlap, all of which hold the same. */
// build: -fno-builtin
// variants: clwb clflushopt clflush
#include "../pm.h"
#include <string.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  unsigned char from[64];
  for (size_t size = 1; size <= sizeof from; size++) {
    for (size_t at = 0; at < size; at++)
      from[at] = (unsigned char)(at * 7 + size);
    memcpy(&pm[size], from, size);
    PERSIST(pm[size]);
    memmove((char *)&pm[size + 1] - size, from, size);
    PERSIST(pm[size]);
    memset((char *)&pm[size] + (64 - size) / 2, (int)size, size);
    PERSIST(pm[size]);
  }
  return 0;
}
