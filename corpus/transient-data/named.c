/* Nothing is ever flushed, and the user says that the file is persistent memory. */
// check: --pm {dir}/pool
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[0].word[0], 1);    // expect: transient-data
  STORE(pm[500].word[3], 2);  // expect: transient-data
  return 0;
}
