/* The break grows and shrinks, starts behind the program, and its pages are zero and usable.
 *
 * @build pie static nopie
 */
#include <sys/syscall.h>
#include "check.h"

int main(void) {
  char *start = sbrk(0);
  for (int i = 0; i < 50; i++) {
    char *old = sbrk(100000);
    check(old != (void *)-1 && old[0] == 0 && old[99999] == 0);
    memset(old, i, 100000);
  }
  check((char *)sbrk(0) == start + 5000000);
  for (int i = 0; i < 50; i++) check(start[i * 100000 + 50000] == i);
  check(sbrk(-5000000) != (void *)-1 && sbrk(0) == start);
  check(sbrk(1L << 46) == (void *)-1 && errno == ENOMEM && sbrk(0) == start);
  check((char *)syscall(SYS_brk, 0) == start);
  check((char *)syscall(SYS_brk, start + 10) == start + 10);
  say("grew and shrank");
  return 0;
}
