/* mfence orders flushes as sfence does. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  FLUSH(pm[0]);
  MFENCE();
  _exit(0);
}
