/* Scripts: the interpreter's argument, a script as interpreter, argv as the kernel makes it.
 *
 * @build pie static
 */
#include <fcntl.h>
#include <sys/stat.h>
#include "check.h"

static void make(const char *name, const char *first, const char *interpreter, const char *rest) {
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0700);
  check(fd >= 0);
  dprintf(fd, "%s%s%s", first, interpreter, rest);
  close(fd);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "show") == 0) {
    for (int i = 2; i < argc; i++) printf("[%s]", argv[i]);
    printf("\n");
    return argc;
  }
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  check(length > 0);
  self[length] = 0;
  make("script", "#!", self, " show\nnever read\n");
  make("outer", "#!", "./script", " one argument, however many words\n");
  make("spaces", "#! \t", "/bin/sh", "  \necho \"shell $0 $1\"\n");
  const char *names[] = {"./script", "./outer", "./spaces"};
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      execl(names[i], "ignored", "x y", "z", (char *)NULL);
      _exit(127);
    }
    printf("%d\n", exit_status(child));
    fflush(stdout);
  }
  return 0;
}
