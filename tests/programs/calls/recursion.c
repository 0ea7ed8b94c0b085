/* Watched functions that call themselves and each other, through pointers too, from places that call others
 * in between.
 *
 * @build pie static nopie
 * @flags -O1
 */
#include "call_log.h"

watched long factorial(long n) {
  log_call("call", "factorial", n);
  long result = n < 2 ? 1 : n * factorial(n - 1);
  log_call("return", "factorial", result);
  return result;
}

watched long odd(long n);
watched long even(long n) {
  log_call("call", "even", n);
  long result = n == 0 ? 1 : odd(n - 1);
  log_call("return", "even", result);
  return result;
}
watched long odd(long n) {
  log_call("call", "odd", n);
  long result = n == 0 ? 0 : even(n - 1);
  log_call("return", "odd", result);
  return result;
}

__attribute__((noinline)) static long unwatched(long n) { return n + 1; }

int main(void) {
  check(factorial(5) == 120);
  check(even(4) == 1);
  long (*volatile functions[3])(long) = {factorial, unwatched, odd};
  for (int i = 0; i < 30; i++) functions[i % 3](i % 4);
  return 0;
}
