/* With SA_RESTART, read, wait, accept and futex go on after a handler; poll and nanosleep never restart.
 *
 * @build pie musl
 */
#include <poll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include "check.h"

static volatile int ticks;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  ticks++;
}

int main(void) {
  struct itimerval every = {{0, 4000}, {0, 4000}};
  int ends[2];
  check(pipe(ends) == 0);
  int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (child == 0) {
    pause_ms(60);
    check(write(ends[1], "x", 1) == 1);
    pause_ms(60);
    *word = 1;
    syscall(SYS_futex, word, 1 /* wake */, 1, NULL, NULL, 0);
    pause_ms(60);
    _exit(5);
  }
  handle(SIGALRM, handler, SA_RESTART);
  setitimer(ITIMER_REAL, &every, NULL);
  char byte;
  check(read(ends[0], &byte, 1) == 1 && byte == 'x');
  check(ticks > 2);
  while (*word == 0) check(syscall(SYS_futex, word, 0 /* wait */, 0, NULL, NULL, 0) == 0 || errno == EAGAIN);
  check(exit_status(child) == 5);
  struct timespec time = {10, 0};
  check(nanosleep(&time, NULL) == -1 && errno == EINTR);
  check(poll(NULL, 0, 10000) == -1 && errno == EINTR);
  say("restarted");
  return 0;
}
