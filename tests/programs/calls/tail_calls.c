/* Watched functions that end with a jump to another: both return at once.
 *
 * @flags -O2 -fno-ipa-icf
 */
#include "call_log.h"

watched long last(long n) {
  log_call("call", "last", n);
  return n * 2;
}
watched long first(long n) {
  log_call("call", "first", n);
  return last(n + 1);
}

int main(void) {
  for (volatile long i = 0; i < 3; i++) {
    long result = first(i);
    log_call("return", "last", result);
    log_call("return", "first", result);
    result = last(i);
    log_call("return", "last", result);
  }
  return 0;
}
