/* Processes that never map a file write to it through descriptors while another has it mapped, and synchronize it. */
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "pm.h"

enum { PAGE = 4096, LENGTH = 16 * PAGE };

/* A program of its own: it knows nothing of its parent's mappings. */
static int writer(const char *directory) {
  char text[PAGE];
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)noise();
  int fd = pm_open(directory, "file", LENGTH);
  struct iovec parts[2] = {{text, 100}, {text + 700, 300}};
  check(pwrite(fd, text, 200, 100) == 200);
  check(lseek(fd, 5 * PAGE - 50, SEEK_SET) >= 0 && write(fd, text + 5, 120) == 120);
  check(writev(fd, parts, 2) == 400);
  check(pwritev(fd, parts, 2, 6 * PAGE + 11) == 400);
  char path[4096];
  snprintf(path, sizeof path, "%s/source", directory);
  int source = open(path, O_RDWR | O_CREAT, 0600);
  check(write(source, text, sizeof text) == sizeof text);
  off_t from = 0;
  check(lseek(fd, 8 * PAGE + 1, SEEK_SET) >= 0 && sendfile(fd, source, &from, 1000) == 1000);
  loff_t in = 10, out = 9 * PAGE;
  ssize_t copied = copy_file_range(source, &in, fd, &out, 900, 0);
  check(copied == 900 || (copied < 0 && pwrite(fd, text + 10, 900, 9 * PAGE) == 900));
  int ends[2];
  loff_t at = 10 * PAGE + 3;
  check(pipe(ends) == 0 && write(ends[1], text, 600) == 600);
  check(splice(ends[0], NULL, fd, &at, 600, 0) == 600);
  check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5 * PAGE, PAGE) == 0);
  check(ftruncate(fd, LENGTH - PAGE - 100) == 0 && ftruncate(fd, LENGTH) == 0);
  check(fdatasync(fd) == 0 && unlink(path) == 0);
  return 0;
}

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  if (argc > 2) return writer(directory);
  char *map = pm_map(directory, "file", LENGTH);
  memset(map, 7, LENGTH);
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", argv[0], "writer", directory, (char *)NULL);
    _exit(1);
  }
  check(exit_status(child) == 0);
  map[3] = 'm';
  map[LENGTH - 1] = 'n';
  return 0;
}
