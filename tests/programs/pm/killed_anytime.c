/* Children store without pause, each in its own way, and are killed at any moment, two hundred times. What a child
 * stored last is in the trace, too, though it may have had no time to say so.
 *
 * @varying
 */
#include <emmintrin.h>
#include "pm.h"

enum { CHILDREN = 200, PAGE = 4096, WAYS = 6 };

static void store(int way, char *at) {
  uint64_t word = noise();
  switch (way) {
    case 0: *(volatile uint64_t *)at = word; break;
    case 1: *(volatile char *)(at + word % 8) = (char)word; break;
    case 2: _mm_storeu_si128((__m128i *)at, _mm_set1_epi64x((long long)word)); break;
    case 3: _mm_stream_si64((long long *)at, (long long)word); break;
    case 4: __atomic_fetch_add((uint64_t *)at, word, __ATOMIC_SEQ_CST); break;
    case 5: {
      uint64_t count = word % 4 + 1;
      __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(word) : "memory");
    }
  }
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", CHILDREN * PAGE);
  int ends[2];
  check(pipe(ends) == 0);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      char *page = map + i * PAGE;
      store(i % WAYS, page);
      check(write(ends[1], "x", 1) == 1);
      for (unsigned n = 0;; n++) store(i % WAYS, page + n * 8 % (PAGE - 16));
    }
    char byte;
    check(read(ends[0], &byte, 1) == 1);
    struct timespec time = {0, (long)(noise() % 2000000)};
    nanosleep(&time, NULL);
    check(kill(child, SIGKILL) == 0 && death_signal(child) == SIGKILL);
  }
  return 0;
}
