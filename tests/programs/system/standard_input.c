/* Standard input is passed through, byte for byte, by read and by the C library.
 *
 * @stdin first line\nsecond\n\nrest of it
 * @build pie musl
 */
#include "check.h"

int main(void) {
  char line[100];
  ssize_t count = read(0, line, 6);
  check(count == 6 && memcmp(line, "first ", 6) == 0);
  while (fgets(line, sizeof line, stdin)) printf("[%s]", line);
  printf("\n");
  check(feof(stdin) && read(0, line, 1) == 0);
  return 0;
}
