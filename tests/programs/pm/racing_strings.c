/* rep movs and rep stos by four threads over the same lines, forwards and backwards, against plain stores.
 *
 * @threaded
 */
#include "racing.h"

static char *map, source[1024];

static void work(int number, uint64_t *random) {
  for (int i = 0; i < 400; i++) {
    uint64_t value = next_random(random);
    char *to = map + (value & 2047);
    const char *from = source + (value >> 20 & 255);
    long count = (long)(value >> 40 & 127);
    switch ((i + number) % 4) {
      case 0: __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory"); break;
      case 1: __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); break;
      case 2:
        to += 1024;
        from = source + 1016;
        __asm__ volatile("std\nrep movsq\ncld" : "+D"(to), "+S"(from), "+c"(count) : : "memory", "cc");
        break;
      case 3: *(volatile uint64_t *)to = value; break;
    }
  }
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", 2 * 4096);
  for (int i = 0; i < 1024; i++) source[i] = (char)noise();
  race(4, work);
  return 0;
}
