/* A vfork child shares the parent's memory, and the parent waits for its exit or exec.
 *
 * @build pie static musl
 */
#include <sys/syscall.h>
#include "check.h"

static volatile int written;

int main(void) {
  for (int i = 0; i < 100; i++) {
    pid_t child = vfork();
    check(child >= 0);
    if (child == 0) {
      written = i + 1;
      _exit(3);
    }
    check(written == i + 1 && exit_status(child) == 3);
  }
  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 8", (char *)NULL);
    _exit(127);
  }
  check(exit_status(child) == 8);
  child = vfork();
  if (child == 0) {
    execl("/nowhere", "nowhere", (char *)NULL);
    written = errno;
    _exit(127);
  }
  check(exit_status(child) == 127 && written == ENOENT);
  say("shared");
  return 0;
}
