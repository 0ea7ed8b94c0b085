/* exec by a thread that is not the first ends all others and keeps the process id. */
#include <pthread.h>
#include "check.h"

static char **arguments;

static void *idle(void *argument) {
  for (;;) pause();
  return argument;
}

static void *executes(void *argument) {
  char id[32];
  snprintf(id, sizeof id, "%d", getpid());
  execl("/proc/self/exe", arguments[0], id, (char *)NULL);
  return argument;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    check(atoi(argv[1]) == getpid());
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", getpid());
    check(access(path, F_OK) == 0);
    say("one thread again");
    return 0;
  }
  arguments = argv;
  pthread_t threads[5];
  for (int i = 0; i < 4; i++) check(pthread_create(&threads[i], NULL, idle, NULL) == 0);
  check(pthread_create(&threads[4], NULL, executes, NULL) == 0);
  for (;;) pause();
}
