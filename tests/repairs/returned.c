/* Stores in a returned value, in a condition and in the head of a loop. */
// levels: O0
#include "../pm.h"

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) uint64_t set(struct line *line, uint64_t value) {
  return line->word[0] = value; // broken
  // repair: line->word[0] = value;
  // repair: flush(line, 8);
  // repair: return value;
}

static __attribute__((noinline)) int count(struct line *line, int last) {
  int sum = 0;
  for (line->word[1] = 0; sum < last; line->word[1]++) // broken
  // repair: for (line->word[1] = 0; sum < last; line->word[1]++, flush(&line->word[1], 8))
    __asm__ volatile("add $2, %0" : "+r"(sum)::"memory"); // keeps the stores in the loop
  // repair: flush(&line->word[1], 8);
  return sum;
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  flush(pm, 4 * 64);
  FENCE();
  if ((pm[1].word[0] = set(pm, argc)) > 7) // broken
  // repair: pm[1].word[0] = set(pm, argc);
  // repair: flush(&pm[1], 8);
  // repair: if (pm[1].word[0] > 7)
    return 1;
  int sum = count(&pm[2], 3);
  FENCE();
  return sum != 4;
}
