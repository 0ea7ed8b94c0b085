/* longjmp out of watched functions: they are recorded as left when the next one is entered or returns.
 *
 * @build pie static
 * @flags -O1
 */
#include <setjmp.h>
#include "call_log.h"

static jmp_buf back;

watched long inner(long n) {
  log_call("call", "inner", n);
  if (n > 0) longjmp(back, (int)n);
  log_call("return", "inner", n);
  return n;
}

watched long outer(long n) {
  log_call("call", "outer", n);
  long result = inner(n);
  log_call("return", "outer", result);
  return result;
}

watched long whole(long n) {
  log_call("call", "whole", n);
  if (setjmp(back) == 0) outer(n);
  else {
    log_left("inner");
    log_left("outer");
  }
  log_call("return", "whole", n);
  return n;
}

int main(void) {
  for (volatile long i = 0; i < 4; i++) check(whole(i) == i);
  for (volatile long i = 1; i < 5; i++) {
    if (setjmp(back) == 0) outer(i);
    log_left("inner");
    log_left("outer");
  }
  outer(0);
  return 0;
}
