/* fork copies memory; status, ids and pending output are as they should be.
 *
 * @build pie static static-pie musl
 */
#include "check.h"

int main(void) {
  int value = 1;
  int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t parent = getpid();
  for (int i = 0; i < 50; i++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      check(getppid() == parent && getpid() != parent && value == 1);
      value = 2;
      (*shared)++;
      _exit(i);
    }
    check(exit_status(child) == i && value == 1 && *shared == i + 1);
  }
  printf("buffered ");
  if (fork() == 0) exit(0); /* flushes its copy of the buffer */
  wait(NULL);
  printf("twice\n");
  return 0;
}
