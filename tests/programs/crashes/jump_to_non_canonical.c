/* Jumps to an address that no address space has.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  void (*volatile wild)(void) = (void (*)(void))0x123456789abcdef0;
  wild();
  say("after");
  return 0;
}
