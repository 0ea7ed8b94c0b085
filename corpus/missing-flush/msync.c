/* A file made durable by msync is changed after the last one. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  if (msync(pm, 4096, MS_SYNC) != 0)
    return 1;
  STORE(pm[0].word[0], 2); // expect: missing-flush
  return 0;
}
