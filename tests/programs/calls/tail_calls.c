/* Watched functions that end with a jump to another: both return at once.
 *
 * @flags -O2 -fno-ipa-icf
 */
#include "told.h"

watched long last(long n) {
  told("call", "last", n);
  return n * 2;
}
watched long first(long n) {
  told("call", "first", n);
  return last(n + 1);
}

int main(void) {
  for (volatile long i = 0; i < 3; i++) {
    long result = first(i);
    told("return", "last", result);
    told("return", "first", result);
    result = last(i);
    told("return", "last", result);
  }
  return 0;
}
