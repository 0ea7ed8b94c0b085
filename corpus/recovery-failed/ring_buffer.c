/* A full ring overwrites its oldest entry before it gives it up. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { SLOTS = 4 };

struct ring {
  uint64_t head, tail, slots[SLOTS];
};

static void push(struct ring *ring) {
  SET(ring->slots[ring->tail % SLOTS], ring->tail);
  SET(ring->tail, ring->tail + 1);
}

static void push_over(struct ring *ring) {
  SET(ring->slots[ring->tail % SLOTS], ring->tail); // expect: recovery-failed
  SET(ring->head, ring->head + 1); // missing-store: recovery-failed
  SET(ring->tail, ring->tail + 1);
}

static int recover(const struct ring *ring) {
  for (uint64_t at = ring->head; at < ring->tail; at++)
    REQUIRE(ring->slots[at % SLOTS] == at);
  return 0;
}

int main(int argc, char **argv) {
  struct ring *ring = (struct ring *)map_pool(argv[1]);
  if (argc > 2)
    return recover(ring);
  for (int i = 0; i < SLOTS; i++)
    push(ring);
  push_over(ring);
  return 0;
}
