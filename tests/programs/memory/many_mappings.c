/* Ten thousand mappings come and go. */
#include "check.h"

int main(void) {
  static char *pages[10000];
  for (int i = 0; i < 10000; i++) {
    pages[i] = mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(pages[i] != MAP_FAILED);
    if (i % 2 == 0) pages[i][5] = (char)i;
  }
  for (int i = 0; i < 10000; i++) check(pages[i][5] == (i % 2 ? 0 : (char)i));
  for (int i = 9999; i >= 0; i -= 3) check(munmap(pages[i], 4096) == 0);
  say("ten thousand");
  return 0;
}
