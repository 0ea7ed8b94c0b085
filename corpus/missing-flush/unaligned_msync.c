/* msync demands the address of a page: the call fails with EINVAL, nobody looks, and nothing is durable. */
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (uint64_t i = 1; i < 4; i++) {
    MOV(pm[i].word[0], i); // expect: missing-flush
    msync(&pm[i], sizeof pm[i], MS_SYNC);
  }
  return 0;
}
