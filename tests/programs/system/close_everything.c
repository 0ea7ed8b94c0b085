/* A program that closes every descriptor, as daemons do, goes on and ends well.
 *
 * @exit 9
 */
#include <pthread.h>
#include <sys/syscall.h>
#include "check.h"

static void *work(void *argument) { return malloc((size_t)argument); }

int main(void) {
  say("closing");
  check(syscall(SYS_close_range, 0, ~0U, 0) == 0);
  check(write(1, "x", 1) == -1 && errno == EBADF);
  pthread_t thread;
  void *block;
  check(pthread_create(&thread, NULL, work, (void *)100) == 0 && pthread_join(thread, &block) == 0 && block);
  pid_t child = fork();
  if (child == 0) _exit(9);
  return exit_status(child);
}
