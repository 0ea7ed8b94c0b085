/* Calls data, which cannot be executed.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  static char data[16] = {0};
  void (*volatile wild)(void) = (void (*)(void))(uintptr_t)data;
  data[0] = (char)0xc3;
  wild();
  say("after");
  return 0;
}
