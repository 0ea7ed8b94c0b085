/* What cannot be executed gives the right error and leaves the process as it was. */
#include <fcntl.h>
#include <sys/stat.h>
#include "check.h"

static void make(const char *name, const char *text, mode_t mode) {
  int fd = open(name, O_CREAT | O_WRONLY, 0600);
  check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0 && close(fd) == 0);
}

static void refuses(const char *path, int error) {
  char *const arguments[] = {(char *)path, NULL};
  char *const environment[] = {NULL};
  check(execve(path, arguments, environment) == -1);
  printf("%s: %s\n", path, strerror(errno));
  check(errno == error);
}

int main(void) {
  make("plain", "hello", 0700);
  make("empty", "", 0700);
  make("no-permission", "#!/bin/sh\n", 0600);
  make("no-interpreter", "#!/nowhere/sh\n", 0700);
  make("broken-elf", "\x7f" "ELF\x02\x01\x01", 0700);
  mkdir("directory", 0700);
  check(symlink("loop", "loop") == 0);
  refuses("./plain", ENOEXEC);
  refuses("./empty", ENOEXEC);
  refuses("./no-permission", EACCES);
  refuses("./no-interpreter", ENOENT);
  refuses("./broken-elf", ENOEXEC);
  refuses("./directory", EACCES);
  refuses("./loop", ELOOP);
  refuses("./nowhere", ENOENT);
  refuses("", ENOENT);
  char *volatile nowhere = (char *)8;
  char *const none[] = {NULL};
  check(execve(nowhere, none, none) == -1 && errno == EFAULT);
  say("still here");
  return 0;
}
