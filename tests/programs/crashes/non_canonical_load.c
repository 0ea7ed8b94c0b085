/* Reads at an address that no address space has.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  (void)*(volatile int *)0x8000000000000000;
  say("after");
  return 0;
}
