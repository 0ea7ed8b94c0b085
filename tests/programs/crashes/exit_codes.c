/* All 256 exit codes, by exit, _exit, exit_group and return from main.
 *
 * @exit 255
 */
#include <sys/syscall.h>
#include "check.h"

int main(void) {
  for (int code = 0; code < 256; code++) {
    pid_t child = fork();
    if (child == 0) {
      if (code % 3 == 0) exit(code);
      if (code % 3 == 1) _exit(code);
      syscall(SYS_exit_group, code | 0x7f00); /* only the low byte counts */
    }
    check(exit_status(child) == code);
  }
  say("256");
  return -1;
}
