/* The value was stored before, but that store was not fenced either. */
// variants: clwb clflushopt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  STORE(pm[0].word[0], 7);
  STORE(pm[0].word[0], 7);
  FLUSH(pm[0]); // expect: missing-fence
  return 0;
}
