/* Half of a word is overwritten before it is flushed. The other half is left, so the flush covers two stores. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  uint32_t *low = (uint32_t *)&pm[0].word[0];
  STORE(pm[0].word[0], 0x100000001); // expect: dirty-overwrite
  STORE(*low, 2);
  FLUSH(pm[0]); // expect: flush-covers-many
  FENCE();
  return 0;
}
