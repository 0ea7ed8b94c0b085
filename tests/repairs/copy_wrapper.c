/* A function that copies also serves volatile memory: its caller flushes. */
#include "../pm.h"
#include <string.h>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void copy_bytes(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  struct line first, second;
  memset(&first, argc, sizeof first);
  copy_bytes(&second, &first, sizeof first);
  flush(&pm[0], 1);
  copy_bytes(&pm[0], &second, sizeof second);
  // repair: flush(&pm[0], sizeof second);
  pm[1].word[0] = 1;
  flush(&pm[1], 8);
  FENCE();
  return 0;
}
