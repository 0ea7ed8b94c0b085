/* madvise variants: DONTNEED zeroes, WIPEONFORK and DONTFORK act over fork, FREE and HUGEPAGE do no harm. */
#include "check.h"

int main(void) {
  char *area = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(area, 7, 4 << 20);
  check(madvise(area, 4096, MADV_DONTNEED) == 0 && area[0] == 0 && area[4096] == 7);
  check(madvise(area + 4096, 4096, MADV_WIPEONFORK) == 0 && madvise(area + 8192, 4096, MADV_DONTFORK) == 0);
  madvise(area + (2 << 20), 2 << 20, MADV_HUGEPAGE);
  madvise(area + (3 << 20), 4096, MADV_FREE);
  pid_t child = fork();
  if (child == 0) {
    check(area[4096] == 0 && area[12288] == 7);
    (void)*(volatile char *)(area + 8192);
    _exit(0);
  }
  check(death_signal(child) == SIGSEGV);
  check(area[4096] == 7 && area[8192] == 7);
  say("advised");
  return 0;
}
