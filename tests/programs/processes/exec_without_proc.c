/* A program is executed in a root directory of its own, where there is nothing else.
 *
 * @build static
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include "check.h"

int main(int argc, char **argv) {
  if (argc > 2) return atoi(argv[1]);
  if (argc > 1) { /* once more from in there */
    pid_t child = fork();
    if (child == 0) {
      execl("/program", "program", "7", "again", (char *)NULL);
      _exit(98);
    }
    check(exit_status(child) == 7);
    say("executed twice");
    return 5;
  }
  struct stat self;
  int from = open("/proc/self/exe", O_RDONLY);
  check(from >= 0 && fstat(from, &self) == 0 && mkdir("root", 0755) == 0);
  int to = open("root/program", O_WRONLY | O_CREAT, 0755);
  check(to >= 0 && sendfile(to, from, NULL, (size_t)self.st_size) == self.st_size && close(to) == 0 && close(from) == 0);
  pid_t child = fork();
  if (child == 0) {
    if (chroot("root") != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot("root") != 0)) {
      say("executed twice"); /* not allowed here */
      _exit(5);
    }
    check(chdir("/") == 0);
    execl("/program", "program", "inside", (char *)NULL);
    _exit(99);
  }
  check(exit_status(child) == 5);
  check(unlink("root/program") == 0 && rmdir("root") == 0);
  return 0;
}
