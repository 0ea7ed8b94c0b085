/* A megabyte of arguments and environment passes through exec. */
#include "check.h"

extern char **environ;

int main(int argc, char **argv) {
  static char *arguments[9000], *variables[3000];
  if (argc > 1) {
    size_t total = 0;
    int count = 0;
    for (int i = 0; i < argc; i++) total += strlen(argv[i]);
    for (char **variable = environ; *variable; variable++) count++;
    printf("%d %zu %d\n", argc, total, count);
    return 0;
  }
  char *text = malloc(101);
  memset(text, 'x', 100);
  text[100] = 0;
  arguments[0] = argv[0];
  for (int i = 1; i < 8000; i++) arguments[i] = text;
  for (int i = 0; i < 2000; i++) check(asprintf(&variables[i], "V%d=%s", i, text) > 0);
  execve("/proc/self/exe", arguments, variables);
  perror("execve");
  return 1;
}
