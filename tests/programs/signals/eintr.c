/* Without SA_RESTART, blocking calls end with EINTR: read, nanosleep, poll, epoll, futex, wait, accept, semop.
 *
 * @build pie musl
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static void interrupted(const char *what, long result) {
  check(result == -1 && errno == EINTR);
  say(what);
}

int main(void) {
  struct itimerval every = {{0, 5000}, {0, 5000}};
  struct timespec long_time = {30, 0}, left = {0, 0};
  struct epoll_event event;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int ends[2], word = 1, epoll = epoll_create1(0), server = socket(AF_UNIX, SOCK_STREAM, 0);
  char byte;
  check(pipe(ends) == 0 && epoll >= 0 && bind(server, (void *)&name, sizeof(sa_family_t)) == 0 && listen(server, 1) == 0);
  struct pollfd wait_for = {.fd = ends[0], .events = POLLIN};
  pid_t child = fork();
  if (child == 0) {
    pause_ms(60000);
    _exit(0);
  }
  handle(SIGALRM, handler, 0);
  setitimer(ITIMER_REAL, &every, NULL);
  interrupted("read", read(ends[0], &byte, 1));
  interrupted("nanosleep", nanosleep(&long_time, &left));
  check(left.tv_sec == 29);
  interrupted("poll", poll(&wait_for, 1, 30000));
  interrupted("epoll_wait", epoll_wait(epoll, &event, 1, 30000));
  interrupted("futex", syscall(SYS_futex, &word, 0 /* wait */, 1, &long_time, NULL, 0));
  interrupted("waitpid", waitpid(child, NULL, 0));
  interrupted("accept", accept(server, NULL, NULL));
  interrupted("pause", pause());
  kill(child, SIGKILL);
  return 0;
}
