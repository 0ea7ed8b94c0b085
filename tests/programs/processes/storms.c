/* Storms of short lives: vfork and exec from several threads at once, threads by clone3 and pthreads that end at once, children
 * that fork again and are killed, with signals going round. */
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include "check.h"

static _Atomic int ended, ticks;

static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  ticks++;
}

static void *brief(void *argument) {
  ended++;
  if ((long)argument % 3 == 0) pthread_exit(NULL);
  return NULL;
}

static void *execute(void *argument) {
  for (int i = 0; i < 8; i++) {
    char status[4];
    snprintf(status, sizeof status, "%d", (int)(long)argument + i);
    pid_t child = vfork();
    if (child == 0) {
      execl("/proc/self/exe", "storms", status, (char *)NULL);
      _exit(99);
    }
    check(child > 0 && exit_status(child) == (int)(long)argument + i);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc > 1) return atoi(argv[1]);
  handle(SIGUSR1, on_signal, SA_RESTART);
  pthread_t executors[3], threads[16];
  for (long i = 0; i < 3; i++) check(pthread_create(&executors[i], NULL, execute, (void *)(i * 10)) == 0);
  for (int round = 0; round < 12; round++) {
    for (long i = 0; i < 16; i++) check(pthread_create(&threads[i], NULL, brief, (void *)i) == 0);
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 16; i++) check(pthread_join(threads[i], NULL) == 0);
    struct clone_args arguments = {.flags = CLONE_CHILD_CLEARTID, .exit_signal = SIGCHLD};
    pid_t child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child == 0) {
      if (fork() == 0) _exit(0);
      wait(NULL);
      if (round % 2) raise(SIGKILL);
      _exit(round);
    }
    check(child > 0);
    if (round % 2)
      check(death_signal(child) == SIGKILL);
    else
      check(exit_status(child) == round);
  }
  for (int i = 0; i < 3; i++) check(pthread_join(executors[i], NULL) == 0);
  check(ended == 12 * 16 && ticks > 0);
  say("over");
  return 0;
}
