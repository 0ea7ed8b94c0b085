/* A watched function that forks: both processes return from it.
 *
 * @flags -O1
 */
#include "call_log.h"

watched long inner(long n) { return n + 1; }

watched long outer(long n) {
  pid_t child = fork();
  check(child >= 0);
  if (child == 0) return inner(20 * n);
  check(exit_status(child) == 21);
  return inner(7 * n);
}

int main(void) {
  pid_t first = getpid();
  long result = outer(1);
  if (getpid() != first) _exit((int)result);
  return result != 8;
}
