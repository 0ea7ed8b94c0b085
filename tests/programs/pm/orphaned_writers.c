/* Children store to a file after their parents have unmapped it, executed another program or ended. A fork that fails
 * comes before each of them. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include "pm.h"

enum { CHILDREN = 30, SIZE = 1 << 16 };

/* Returns when all other processes have closed their ends of the pipe. */
static void wait_for_end(int ends[2]) {
  char byte;
  close(ends[1]);
  check(read(ends[0], &byte, 1) == 0);
}

static void parent(char *map, int number, int done) {
  int gone[2];
  check(pipe2(gone, O_CLOEXEC) == 0);
  check(syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0) == -1 && errno == EINVAL);
  if (fork() == 0) {
    wait_for_end(gone);
    memset(map + number * 1000, number + 1, 500);
    check(write(done, "x", 1) == 1);
    _exit(0);
  }
  if (number % 3 == 0) {
    munmap(map, SIZE);
    close(gone[1]);
  }
  if (number % 3 == 1) execl("/bin/true", "true", NULL);
  _exit(0);
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", SIZE);
  int done[2];
  check(pipe(done) == 0);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    if (child == 0) parent(map, i, done[1]);
    check(exit_status(child) == 0);
  }
  char byte;
  for (int i = 0; i < CHILDREN; i++) check(read(done[0], &byte, 1) == 1);
  return 0;
}
