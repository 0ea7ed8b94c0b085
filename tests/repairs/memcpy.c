/* A copy is made by the C library. */
#include "../pm.h"
#include <string.h>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static void persist(const void *from, size_t size) {
  flush(from, size);
  FENCE();
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  char text[200];
  memset(text, argc, sizeof text);
  flush(pm, 256);
  memcpy(pm->word, text, sizeof text);
  // repair: flush(pm->word, sizeof text);
  pm[9].word[0] = 1;
  persist(&pm[9].word[0], 8);
  return 0;
}
