/* A second shared file is never flushed: it is no persistent memory, and what is stored there is nobody's business. */
// variants: clwb clflushopt clflush nt
// args: {dir}/pool {dir}/scratch
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]), *scratch = map_pool(argv[2]);
  for (uint64_t i = 1; i < 5; i++) {
    MOV(scratch[0].word[0], i);
    STORE(pm[0].word[0], scratch[0].word[0]);
    PERSIST(pm[0]);
  }
  return 0;
}
