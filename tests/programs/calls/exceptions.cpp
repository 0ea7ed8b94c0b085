/* C++ exceptions that pass through a watched function.
 *
 * @flags -O1
 */
#include "call_log.h"

extern "C" watched long thrower(long n) {
  log_call("call", "thrower", n);
  if (n % 2) throw n;
  log_call("return", "thrower", n);
  return n;
}

extern "C" watched long catcher(long n) {
  log_call("call", "catcher", n);
  long result;
  try {
    result = thrower(n);
  } catch (long thrown) {
    log_left("thrower");
    result = -thrown;
  }
  log_call("return", "catcher", result);
  return result;
}

int main() {
  for (long i = 0; i < 6; i++) check(catcher(i) == (i % 2 ? -i : i));
  return 0;
}
