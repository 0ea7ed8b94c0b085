/* One instruction fills a line, or a part of it: that is one store, however wide. */
// variants: clwb clflushopt clflush
#include "../pm.h"

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  void *to = &pm[0];
  size_t count = 64;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
  PERSIST(pm[0]);
  __asm__ volatile("movaps %%xmm0, %0" : "=m"(pm[1])::"memory");
  PERSIST(pm[1]);
  return 0;
}
