/* Calls abort.
 *
 * @signal SIGABRT
 * @build pie static musl
 */
#include "check.h"

int main(void) {
  say("before");
  abort();
  say("after");
  return 0;
}
