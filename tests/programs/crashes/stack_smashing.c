/* The stack protector finds an overwritten canary and ends the program.
 *
 * @signal SIGABRT
 * @flags -fstack-protector-all -U_FORTIFY_SOURCE
 * @stderr
 */
#include "check.h"

__attribute__((noinline)) static void smash(volatile char *at, int count) {
  for (int i = 0; i < count; i++) at[i] = 'x';
}

__attribute__((noinline)) static int victim(int count) {
  volatile char small[8];
  smash(small, count);
  return small[0];
}

int main(void) { return victim(64); }
