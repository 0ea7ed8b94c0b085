/* The program flushes its own copy on the stack, in addition to the original. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]), copy = {{1}};
  STORE(pm[0].word[0], copy.word[0]);
  PERSIST(pm[0]);
  FLUSH(copy); // expect: flush-volatile
  _exit(0);
}
