/* The program has no way of flushing that the repair could use: a helper is added. */
#include "../pm.h"

/* Flushes lines, or persists them. */
static void write_back(struct line *from, int lines, int fence) {
  for (int i = 0; i < lines; i++)
    FLUSH(from[i]);
  if (fence)
    FENCE();
}
#undef FLUSH
#undef PERSIST

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  write_back(pm, 1, 0);
  pm->word[0] = 1;
  // repair: write_back(pm, 1, 0);
  pm[1].word[0] = 1;
  write_back(pm + 1, 1, 1);
  return 0;
}
