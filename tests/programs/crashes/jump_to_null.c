/* Calls a null pointer.
 *
 * @signal SIGSEGV
 * @build pie static
 */
#include "check.h"

int main(void) {
  say("before");
  ((void (*volatile)(void))0)();
  say("after");
  return 0;
}
