/* longjmp out of watched functions: they are told as left when the next one is entered or returns.
 *
 * @build pie static
 * @flags -O1
 */
#include <setjmp.h>
#include "told.h"

static jmp_buf back;

watched long inner(long n) {
  told("call", "inner", n);
  if (n > 0) longjmp(back, (int)n);
  told("return", "inner", n);
  return n;
}

watched long outer(long n) {
  told("call", "outer", n);
  long result = inner(n);
  told("return", "outer", result);
  return result;
}

watched long whole(long n) {
  told("call", "whole", n);
  if (setjmp(back) == 0) outer(n);
  else {
    told_left("inner");
    told_left("outer");
  }
  told("return", "whole", n);
  return n;
}

int main(void) {
  for (volatile long i = 0; i < 4; i++) check(whole(i) == i);
  for (volatile long i = 1; i < 5; i++) {
    if (setjmp(back) == 0) outer(i);
    told_left("inner");
    told_left("outer");
  }
  outer(0);
  return 0;
}
