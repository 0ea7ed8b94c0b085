/* A function serves volatile and persistent memory, and its callers cannot name what it stores: it is copied. */
#include "../pm.h"
#include <string.h>

static void flush(const void *from, size_t size) {
  for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64)
    FLUSH(*(char *)line);
}

static __attribute__((noinline)) void update(uint64_t *words, uint64_t key) {
  uint64_t slot = key * 7 % 5;
  words[slot] = key;
}
// repair: static __attribute__((noinline)) void update_persistent(uint64_t *words, uint64_t key) {
// repair:   uint64_t slot = key * 7 % 5;
// repair:   words[slot] = key;
// repair:   flush(&words[slot], 8);
// repair: }

static __attribute__((noinline)) void modify(uint64_t *words, uint64_t key) {
  update(words, key + 1);
  __asm__ volatile(""); // a call at the end would become a jump, without a frame
}
// repair: static __attribute__((noinline)) void modify_persistent(uint64_t *words, uint64_t key) {
// repair:   update_persistent(words, key + 1);
// repair:   __asm__ volatile("");
// repair: }

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  uint64_t volatile_words[8] = {0};
  flush(pm, sizeof *pm);
  FENCE();
  for (int i = 0; i < 100; i++)
    modify(volatile_words, i);
  modify(pm->word, argc); // broken
  // repair: modify_persistent(pm->word, argc);
  FENCE();
  return volatile_words[1] == 0;
}
