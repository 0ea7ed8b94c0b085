/* What the test programs share: a check that names itself when it fails, and output that is safe
 * in signal handlers and across fork. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Ends the program with status 99 unless the condition holds. */
#define check(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      dprintf(2, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);  \
      _exit(99);                                                                            \
    }                                                                                       \
  } while (0)

/* Prints a line at once, without buffers that a fork would copy. */
__attribute__((unused)) static void say(const char *text) {
  char line[256];
  size_t length = strlen(text);
  memcpy(line, text, length);
  line[length] = '\n';
  check(write(1, line, length + 1) == (ssize_t)length + 1);
}

__attribute__((unused)) static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  check(sigaction(signal, &action, NULL) == 0);
}

__attribute__((unused)) static void pause_ms(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

/* The exit status of a child that must have exited. */
__attribute__((unused)) static int exit_status(pid_t child) {
  int status;
  check(waitpid(child, &status, 0) == child);
  check(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* The signal that killed a child that must have been killed. */
__attribute__((unused)) static int death_signal(pid_t child) {
  int status;
  check(waitpid(child, &status, 0) == child);
  check(WIFSIGNALED(status));
  return WTERMSIG(status);
}

#endif
