/* Threads that race on persistent memory: started together, joined together. */
#ifndef RACING_H
#define RACING_H

#include <pthread.h>
#include "pm.h"

static pthread_barrier_t racing_start;
static void (*racing_work)(int number, uint64_t *random);

/* Each thread has numbers of its own. */
__attribute__((unused)) static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void *racing_thread(void *argument) {
  int number = (int)(long)argument;
  uint64_t random = 0x9e3779b97f4a7c15 * (uint64_t)(number + 1);
  pthread_barrier_wait(&racing_start);
  racing_work(number, &random);
  return NULL;
}

/* Runs `work` in `count` threads at once. */
__attribute__((unused)) static void race(int count, void (*work)(int, uint64_t *)) {
  pthread_t threads[64];
  racing_work = work;
  check(count <= 64 && pthread_barrier_init(&racing_start, NULL, (unsigned)count) == 0);
  for (long i = 0; i < count; i++) check(pthread_create(&threads[i], NULL, racing_thread, (void *)i) == 0);
  for (int i = 0; i < count; i++) check(pthread_join(threads[i], NULL) == 0);
}

#endif
