/* Ends by a queued signal that nobody handles.
 *
 * @signal SIGUSR1
 */
#include "check.h"

int main(void) {
  say("before");
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 5});
  say("after");
  return 0;
}
