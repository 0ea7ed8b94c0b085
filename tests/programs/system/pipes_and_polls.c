/* Pipes, splice, tee, eventfd, timerfd, inotify, poll and select. */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include "check.h"

int main(void) {
  int ends[2], others[2];
  uint64_t number = 5;
  char text[512];
  check(pipe2(ends, O_NONBLOCK) == 0 && pipe(others) == 0);
  check(read(ends[0], text, 1) == -1 && errno == EAGAIN);
  check(write(ends[1], "spliced", 7) == 7 && tee(ends[0], others[1], 7, 0) == 7 && read(others[0], text, 7) == 7);
  check(splice(ends[0], NULL, others[1], NULL, 7, 0) == 7 && read(others[0], text, 7) == 7 && memcmp(text, "spliced", 7) == 0);
  int event = eventfd(3, EFD_SEMAPHORE), timer = timerfd_create(CLOCK_MONOTONIC, 0), watch = inotify_init();
  check(write(event, &number, 8) == 8 && read(event, &number, 8) == 8 && number == 1);
  struct itimerspec soon = {{0, 0}, {0, 2000000}};
  check(timerfd_settime(timer, 0, &soon, NULL) == 0 && read(timer, &number, 8) == 8 && number == 1);
  check(inotify_add_watch(watch, ".", IN_CREATE) >= 0);
  close(open("made", O_CREAT | O_WRONLY, 0600));
  check(read(watch, text, sizeof text) > 0 && strcmp(((struct inotify_event *)text)->name, "made") == 0);
  struct pollfd polls[2] = {{.fd = event, .events = POLLIN}, {.fd = ends[0], .events = POLLIN}};
  check(poll(polls, 2, 1000) == 1 && polls[0].revents == POLLIN);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(event, &set);
  FD_SET(ends[0], &set);
  struct timeval time = {1, 0};
  check(select(ends[0] > event ? ends[0] + 1 : event + 1, &set, NULL, NULL, &time) == 1 && FD_ISSET(event, &set));
  say("polled");
  return 0;
}
