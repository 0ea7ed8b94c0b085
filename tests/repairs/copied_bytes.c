/* A function that copies bytes with two running pointers serves volatile and persistent memory. */
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void copy(char *to, const char *from, size_t size) {
  while (size--) *to++ = *from++;
}

static __attribute__((noinline)) void set(struct line *line, uint64_t value) {
  line->word[0] = value;
  line->word[1] = value + 1;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  struct line local[2];
  char text[16];
  flush(pm, 8 * sizeof *pm);
  copy(text, "bytes", 6);
  copy((char *)pm[1].word, text, 5 + argc); // broken
  // repair: for (int i = 0; i < 5 + argc; i++) {
  // repair:   ((char *)pm[1].word)[i] = text[i];
  // repair:   flush((char *)pm[1].word + i, 1);
  // repair: }
  set(&local[0], 1);
  set(&local[1], 2);
  set(&pm[3], local[0].word[0] + argc);
  // repair: flush(&pm[3], 16);
  FENCE();
  return local[1].word[1] == 3 ? 0 : 1;
}
