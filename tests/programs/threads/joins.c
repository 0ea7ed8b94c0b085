/* Threads are created and joined in every way: by other threads, by each function that joins, in a forked process, with
 * thread handles that are used again, and the first thread itself.
 *
 * With an argument, it is the file to which it appends who started whom (`start CHILD PARENT`) and who joined whom
 * (`join JOINER JOINED`).
 *
 * @build pie static static-pie musl musl-static
 * @flags -D_GNU_SOURCE -pthread
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include "check.h"

#define ROUNDS 30

static int relations = -1;
static pthread_t first;
static int first_id;

static int own_id(void) { return (int)syscall(SYS_gettid); }

struct task {
  int parent, id;
  volatile int may_end;
  struct task *inner;
  pthread_t inner_thread;
};

static void started(struct task *task) {
  task->id = own_id();
  dprintf(relations, "start %d %d\n", task->id, task->parent);
}

static void joined(struct task *task) { dprintf(relations, "join %d %d\n", own_id(), task->id); }

static void *ends_at_once(void *argument) {
  started(argument);
  return NULL;
}

static void *ends_when_asked(void *argument) {
  struct task *task = argument;
  started(task);
  while (!task->may_end) sched_yield();
  return NULL;
}

static void *creates_another(void *argument) {
  struct task *task = argument;
  started(task);
  task->inner->parent = task->id;
  check(pthread_create(&task->inner_thread, NULL, ends_at_once, task->inner) == 0);
  return NULL;
}

static int c11_thread(void *argument) {
  started(argument);
  return 0;
}

static void *tasks_end(void *argument) {
  struct task *task = argument;
  started(task);
  __atomic_store_n(&task->may_end, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* A detached thread's handle is often the next thread's. */
static void detached_and_joined(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (int round = 0; round < ROUNDS; round++) {
    static struct task detached[ROUNDS], joinable[ROUNDS];
    pthread_t thread;
    detached[round].parent = joinable[round].parent = own_id();
    check(pthread_create(&thread, &attributes, tasks_end, &detached[round]) == 0);
    while (!__atomic_load_n(&detached[round].may_end, __ATOMIC_ACQUIRE)) sched_yield();
    if (round % 2) pause_ms(1);
    check(pthread_create(&thread, NULL, ends_at_once, &joinable[round]) == 0);
    check(pthread_join(thread, NULL) == 0);
    joined(&joinable[round]);
  }
}

static void each_function(void) {
  struct task task = {.parent = own_id()};
  struct timespec soon, later;
  pthread_t thread;
  clock_gettime(CLOCK_REALTIME, &soon);
  later = soon;
  later.tv_sec += 60;

#ifdef __GLIBC__
  check(pthread_join(pthread_self(), NULL) == EDEADLK);
#endif
  check(pthread_create(&thread, NULL, ends_when_asked, &task) == 0);
  check(pthread_tryjoin_np(thread, NULL) == EBUSY);
  check(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
  task.may_end = 1;
  int result;
  while ((result = pthread_tryjoin_np(thread, NULL)) == EBUSY) sched_yield();
  check(result == 0);
  joined(&task);

  check(pthread_create(&thread, NULL, ends_at_once, &task) == 0);
  check(pthread_timedjoin_np(thread, NULL, &later) == 0);
  joined(&task);
#ifdef __GLIBC__
  check(pthread_create(&thread, NULL, ends_at_once, &task) == 0);
  check(pthread_clockjoin_np(thread, NULL, CLOCK_REALTIME, &later) == 0);
  joined(&task);
#endif
  thrd_t c11;
  check(thrd_create(&c11, c11_thread, &task) == thrd_success);
  check(thrd_join(c11, NULL) == thrd_success);
  joined(&task);
}

/* The thread that is joined was created by another one. */
static void grandchild(void) {
  struct task inner = {0}, outer = {.parent = own_id(), .inner = &inner};
  pthread_t thread;
  check(pthread_create(&thread, NULL, creates_another, &outer) == 0);
  check(pthread_join(thread, NULL) == 0);
  joined(&outer);
  check(pthread_join(outer.inner_thread, NULL) == 0);
  joined(&inner);
}

static void in_a_forked_process(void) {
  int parent = own_id();
  pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    dprintf(relations, "start %d %d\n", own_id(), parent);
    grandchild();
    _exit(0);
  }
  check(exit_status(child) == 0);
}

static void *joins_the_first(void *argument) {
  started(argument);
  check(pthread_join(first, NULL) == 0);
  dprintf(relations, "join %d %d\n", own_id(), first_id);
  say("all joined");
  return NULL;
}

int main(int count, char **arguments) {
  static struct task last;
  pthread_t thread;
  if (count > 1) relations = open(arguments[1], O_CREAT | O_APPEND | O_WRONLY, 0600);
  first = pthread_self();
  last.parent = first_id = own_id();
  detached_and_joined();
  each_function();
  grandchild();
  in_a_forked_process();
  check(pthread_create(&thread, NULL, joins_the_first, &last) == 0);
  pthread_exit(NULL);
}
