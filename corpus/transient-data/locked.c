/* A reference count in persistent memory, changed by locked instructions and never flushed. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);
  PERSIST(pm[0]);
  LOCK_INC(pm[1].word[0]); // expect: transient-data
  return 0;
}
