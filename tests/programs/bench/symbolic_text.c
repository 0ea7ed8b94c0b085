/* Parses a file again and again, as many times as its second argument says: lines of a keyword and a decimal number, and a checksum over all.
 *
 * @flags -O2
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char input[1 << 16];

static unsigned parse(void) {
  unsigned sum = 1;
  char copy[sizeof input];
  strcpy(copy, input);
  for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
    for (char *at = line; *at; at++)
      sum = sum * 31 + (unsigned char)*at;
    if (strncmp(line, "insert ", 7) == 0)
      sum += atoi(line + 7);
    else if (strncmp(line, "remove ", 7) == 0)
      sum -= atoi(line + 7);
  }
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int fd = open(argv[1], O_RDONLY);
  if (fd < 0 || read(fd, input, sizeof input - 1) < 0)
    return 2;
  unsigned sum = 0;
  for (long times = atol(argv[2]); times > 0; times--)
    sum ^= parse();
  printf("%u\n", sum);
  return 0;
}
