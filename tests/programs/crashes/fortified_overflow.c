/* The C library finds a buffer overflow and ends the program.
 *
 * @signal SIGABRT
 * @flags -O2 -D_FORTIFY_SOURCE=2
 * @stderr
 */
#include "check.h"

int main(int argc, char **argv) {
  (void)argc;
  volatile size_t length = 100;
  char small[8];
  memcpy(small, argv[0], length);
  return small[0];
}
