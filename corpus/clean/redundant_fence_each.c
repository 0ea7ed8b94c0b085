/* Every fence has something to wait for. */
// variants: clwb clflushopt nt
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  for (int i = 0; i < 20; i++) {
    STORE(pm[i].word[0], i + 1);
    FLUSH(pm[i]);
    if (i % 2)
      SFENCE();
    else
      MFENCE();
  }
  return 0;
}
