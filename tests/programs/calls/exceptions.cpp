/* C++ exceptions that pass through a watched function.
 *
 * @flags -O1
 */
#include "told.h"

extern "C" watched long thrower(long n) {
  told("call", "thrower", n);
  if (n % 2) throw n;
  told("return", "thrower", n);
  return n;
}

extern "C" watched long catcher(long n) {
  told("call", "catcher", n);
  long result;
  try {
    result = thrower(n);
  } catch (long thrown) {
    told_left("thrower");
    result = -thrown;
  }
  told("return", "catcher", result);
  return result;
}

int main() {
  for (long i = 0; i < 6; i++) check(catcher(i) == (i % 2 ? -i : i));
  return 0;
}
