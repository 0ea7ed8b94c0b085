/* pthread_atfork handlers run in their order on both sides. */
#include <pthread.h>
#include "check.h"

static void prepare_1(void) { say("prepare 1"); }
static void prepare_2(void) { say("prepare 2"); }
static void parent_1(void) {
  wait(NULL); /* so that the order of the lines is known */
  say("parent 1");
}
static void child_1(void) { say("child 1"); }

int main(void) {
  pthread_atfork(prepare_1, parent_1, child_1);
  pthread_atfork(prepare_2, NULL, NULL);
  if (fork() == 0) _exit(0);
  return 0;
}
