/* A part of a store is overwritten before it is flushed. Both reach beyond the other, so the flush covers two. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  uint64_t *first = &pm[0].word[0], *second = (uint64_t *)((char *)first + 4);
  STORE(*first, 0x1111111111111111); // expect: dirty-overwrite
  STORE(*second, 0x2222222222222222);
  FLUSH(pm[0]); // expect: flush-covers-many
  FENCE();
  return 0;
}
