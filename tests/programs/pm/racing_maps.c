/* Threads map, write and unmap files of their own while another writes a shared one and forks.
 *
 * @threaded
 */
#include "racing.h"

static const char *directory;
static char *map;

static void work(int number, uint64_t *random) {
  char name[16];
  snprintf(name, sizeof name, "own%d", number);
  for (int i = 0; i < 20; i++) {
    if (number == 0) {
      pid_t child = fork();
      if (child == 0) {
        map[i] = (char)i;
        _exit(0);
      }
      check(exit_status(child) == 0);
    } else {
      int fd = pm_open(directory, name, 16384);
      char *own = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      check(own != MAP_FAILED);
      for (int n = 0; n < 50; n++) {
        uint64_t value = next_random(random);
        memset(own + value % 16000, (int)(value >> 20), value >> 30 & 255);
        *(volatile uint64_t *)(map + 64 + (value & 255)) = value;
      }
      check(munmap(own, 16384) == 0 && close(fd) == 0);
    }
  }
}

int main(int argc, char **argv) {
  directory = directory_of(argc, argv);
  map = pm_map(directory, "file", 4096);
  race(4, work);
  return 0;
}
