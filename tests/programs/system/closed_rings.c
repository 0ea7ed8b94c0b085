/* Rings of io_uring that are closed are gone: nothing of them stays mapped. Where there are none to be had, there is
 * nothing to lose.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
  for (int i = 0; i < 400; i++) {
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    int fd = syscall(SYS_io_uring_setup, 64, &params);
    if (fd < 0)
      break;
    if (i % 2)
      close(fd);
    else
      syscall(SYS_close_range, fd, fd, 0);
  }
  int lines = 0, byte;
  FILE *maps = fopen("/proc/self/maps", "r");
  while ((byte = getc(maps)) != EOF)
    lines += byte == '\n';
  puts(lines < 200 ? "few mappings" : "many mappings");
  return 0;
}
