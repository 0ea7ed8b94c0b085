/* Rows that volatile pointers name: what a loop stores to is not the array that it counts through. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

struct row {
  uint64_t *data;
  uint64_t length;
};

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  struct row rows[6];
  for (int i = 0; i < 6; i++)
    rows[i] = (struct row){pm[8 + i].word, 8};
  flush(pm + 8, 6 * sizeof *pm);
  FENCE();
  for (int i = 0; i < 6; i++) { // broken
    rows[i].data[1] = argc + i; // broken
  } // broken
  // repair: for (int i = 0; i < 6; i++) {
  // repair:   rows[i].data[1] = argc + i;
  // repair:   flush(&rows[i].data[1], 8);
  // repair: }
  pm[0].word[0] = 1;
  flush(pm, 8);
  FENCE();
  return 0;
}
