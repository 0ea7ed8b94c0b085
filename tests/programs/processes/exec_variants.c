/* execve, execvp, execveat, fexecve: arguments, environment and argv[0] arrive exactly.
 *
 * @build pie static nopie
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include "check.h"

extern char **environ;

static int report(int argc, char **argv) {
  printf("argv[0]=%s\n", argv[0]);
  for (int i = 2; i < argc; i++) printf("argument [%s]\n", argv[i]);
  for (char **variable = environ; *variable; variable++) printf("variable [%s]\n", *variable);
  return atoi(argv[2]);
}

int main(int argc, char **argv) {
  if (argc > 1) return report(argc, argv);
  char *const environment[] = {"ONLY=this", "EMPTY=", "noequals", "TWO=lines\nhere", NULL};
  for (int variant = 0; variant < 5; variant++) {
    char number[2] = {(char)('0' + variant), 0};
    char *const arguments[] = {"a name, not a path", "report", number, "", "two words", "\xff\xfe", NULL};
    char *const no_environment[] = {NULL};
    pid_t child = fork();
    if (child == 0) {
      int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
      check(fd >= 0);
      switch (variant) {
        case 0: execve("/proc/self/exe", arguments, environment); break;
        case 1: execve("/proc/self/exe", arguments, no_environment); break;
        case 2: fexecve(fd, arguments, environment); break;
        case 3: syscall(SYS_execveat, fd, "", arguments, environment, AT_EMPTY_PATH); break;
        case 4: {
          int dir = open("/proc/self", O_PATH | O_DIRECTORY);
          syscall(SYS_execveat, dir, "exe", arguments, environment, 0);
        }
      }
      _exit(99);
    }
    check(exit_status(child) == variant);
  }
  return 0;
}
