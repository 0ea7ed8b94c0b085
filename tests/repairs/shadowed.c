/* The array of a loop is a variable of its body; the same name means another array behind it. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static struct line *at;

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  at = pm;
  at[8].word[1] = 1;
  flush(pm, 16 * sizeof *pm);
  FENCE();
  for (int i = 0; i < 4; i++) {
    struct line *at = pm + 8;
    at[i].word[0] = argc + i;
    // repair: flush(&at[i].word[0], 8);
  }
  at[0].word[0] = 1;
  flush(at, 8);
  FENCE();
  return 0;
}
