/* Kills itself beyond any handler.
 *
 * @signal SIGKILL
 */
#include "check.h"

int main(void) {
  say("before");
  kill(getpid(), SIGKILL);
  say("after");
  return 0;
}
