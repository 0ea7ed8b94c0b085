/* Writes to its own code.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  *(volatile char *)(uintptr_t)main = 1;
  say("after");
  return 0;
}
