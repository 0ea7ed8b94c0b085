/* Threads take turns by a flag in ordinary memory, so that each run has the same order. Nothing that brownout knows orders them, as
 * if they met by chance. */
#ifndef TURNS_H
#define TURNS_H

#include <pthread.h>
#include <sched.h>

static volatile int turn;

static inline void await_turn(int number) {
  while (turn != number)
    sched_yield();
}

static inline void end_turn(void) { turn = turn + 1; }

#define LOAD(place) (*(volatile __typeof__(place) *)&(place))

/* Runs two threads to their ends. */
static inline void run_threads(void *(*one)(void *), void *(*other)(void *)) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, one, NULL);
  pthread_create(&threads[1], NULL, other, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}

#endif
