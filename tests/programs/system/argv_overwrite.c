/* A program that overwrites its arguments in place changes what /proc shows, as servers do for titles.
 *
 * @args a-long-argument another-long-argument
 */
#include <fcntl.h>
#include "check.h"

int main(int argc, char **argv) {
  check(argc == 3);
  char *end = argv[argc - 1] + strlen(argv[argc - 1]);
  memset(argv[0], 0, (size_t)(end - argv[0]));
  strcpy(argv[0], "title: working");
  char text[256] = {0};
  int fd = open("/proc/self/cmdline", O_RDONLY);
  check(read(fd, text, sizeof text - 1) > 0);
  say(text);
  return 0;
}
