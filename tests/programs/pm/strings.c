/* movs and stos in all sizes, forwards and backwards, repeated and single, from and to persistent memory. */
#include "pm.h"

static char *map;

static void copy(char *to, const char *from, long count, int size, int backwards) {
  if (backwards) to += (count - 1) * size, from += (count - 1) * size;
  if (backwards) __asm__ volatile("std");
  switch (size) {
    case 1: __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); break;
    case 2: __asm__ volatile("rep movsw" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); break;
    case 4: __asm__ volatile("rep movsl" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); break;
    case 8: __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); break;
  }
  __asm__ volatile("cld");
  check(count == 0);
}

static void fill(char *to, uint64_t value, long count, int size, int backwards) {
  if (backwards) to += (count - 1) * size;
  if (backwards) __asm__ volatile("std");
  switch (size) {
    case 1: __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory"); break;
    case 2: __asm__ volatile("rep stosw" : "+D"(to), "+c"(count) : "a"(value) : "memory"); break;
    case 4: __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(value) : "memory"); break;
    case 8: __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(value) : "memory"); break;
  }
  __asm__ volatile("cld");
  check(count == 0);
}

int main(int argc, char **argv) {
  static char source[20000], target[20000];
  static const long counts[] = {0, 1, 2, 7, 63, 64, 65, 500, 1250};
  map = pm_map(directory_of(argc, argv), "file", 8 << 20);
  char *at = map + 3;
  for (int i = 0; i < 20000; i++) source[i] = (char)noise();
  for (int size = 1; size <= 8; size *= 2)
    for (int backwards = 0; backwards < 2; backwards++)
      for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        long bytes = counts[i] * size;
        copy(at, source + i, counts[i], size, backwards);
        copy(at + bytes + 100, at, counts[i], size, backwards);
        copy(target, at, counts[i], size, backwards); /* out of it: no store */
        check(memcmp(target, at, (size_t)bytes) == 0);
        copy(at + bytes + 100 + 5, at + bytes + 100, counts[i], size, backwards); /* overlapping */
        fill(at + 2 * bytes + 300, noise(), counts[i], size, backwards);
        at += 3 * bytes + 500;
        check(at < map + (8 << 20) - 40000);
      }
  for (int i = 0; i < 4; i++, at += 61) {
    char *to = at;
    const char *from = source + i;
    __asm__ volatile("movsb\nmovsw\nmovsl\nmovsq\nstosb\nstosw\nstosl\nstosq" : "+D"(to), "+S"(from) : "a"(noise()) : "memory");
    check(to == at + 30 && from == source + i + 15);
  }
  memcpy(at, source, 20000);
  memmove(at + 30000, at + 1, 15000);
  memmove(at + 7, at, 9999);
  memset(at + 50001, 0x42, 12345);
  return 0;
}
