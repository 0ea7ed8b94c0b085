/* SIGBUS beyond the end of a mapped file, repaired by extending the file. */
#include <fcntl.h>
#include "check.h"

static int fd;
static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)context;
  check(signal == SIGBUS && info->si_code == BUS_ADRERR);
  check(ftruncate(fd, 4 * 4096) == 0);
  faults++;
}

int main(void) {
  fd = open("file", O_RDWR | O_CREAT, 0600);
  check(fd >= 0 && ftruncate(fd, 4096) == 0);
  char *map = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  check(map != MAP_FAILED);
  handle(SIGBUS, handler, 0);
  map[10] = 'a';
  check(faults == 0);
  map[3 * 4096 + 5] = 'b';
  check(faults == 1 && map[2 * 4096] == 0 && map[3 * 4096 + 5] == 'b');
  say("extended");
  return 0;
}
