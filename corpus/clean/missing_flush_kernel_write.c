/* What the kernel stored for the program is flushed: not a redundant flush, and one store, though of a whole line. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]), value = {{1, 2, 3, 4, 5, 6, 7, 8}};
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], &value, sizeof value) != sizeof value)
    return 1;
  if (read(ends[0], &pm[0], sizeof value) != sizeof value)
    return 1;
  PERSIST(pm[0]);
  return 0;
}
