/* An empty ring points to itself; pointers in volatile memory may point to anything. */
// variants: clwb clflushopt clflush
#include "../pm.h"

struct ring {
  struct ring *next;
  char gap[120];
  struct ring *previous;
};

int main(int argc, char **argv) {
  struct ring *ring = (struct ring *)map_pool(argv[1]);
  struct ring *volatile kept = ring;
  STORE(ring->next, ring);
  PERSIST(ring->next);
  STORE(ring->previous, ring);
  PERSIST(ring->previous);
  return kept == ring->next ? 0 : 1;
}
