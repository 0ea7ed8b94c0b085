/* Ends by the default action of SIGTERM.
 *
 * @signal SIGTERM
 */
#include "check.h"

int main(void) {
  say("before");
  raise(SIGTERM);
  say("after");
  return 0;
}
