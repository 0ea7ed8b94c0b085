/* The counter is where it belongs, and its final value is made durable. */
// variants: clwb clflushopt clflush nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  volatile uint64_t counter = 0;
  for (int i = 0; i < 10; i++)
    counter++;
  STORE(pm[0].word[0], counter);
  PERSIST(pm[0]);
  return 0;
}
