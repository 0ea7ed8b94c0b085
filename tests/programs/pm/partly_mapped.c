/* A file of which the middle is mapped is written through its descriptor inside, outside and across the mapping. */
#include <sys/syscall.h>
#include "pm.h"

enum { PAGE = 4096 };

int main(int argc, char **argv) {
  char text[3 * PAGE];
  int fd = pm_open(directory_of(argc, argv), "file", 8 * PAGE);
  volatile char *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 3 * PAGE);
  check(map != MAP_FAILED);
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)noise();
  map[5] = 'm';
  check(pwrite(fd, text, 100, 10) == 100);                                /* before */
  check(pwrite(fd, text, 100, 7 * PAGE) == 100);                          /* behind */
  check(pwrite(fd, text, sizeof text, 2 * PAGE + 7) == sizeof text);      /* from before into the mapping */
  check(pwrite(fd, text + 9, PAGE, 4 * PAGE + 2000) == PAGE);             /* from the mapping to behind */
  map[PAGE + 3000] = 'n';
  /* Nobody reads what comes of this ring; the trace says that it could have been used. */
  char parameters[120] = {0};
  long ring = syscall(SYS_io_uring_setup, 1, parameters);
  if (ring >= 0) close((int)ring);
  return 0;
}
