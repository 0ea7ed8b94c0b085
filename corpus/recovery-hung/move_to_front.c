/* A list of what was used last: the node that goes to the front points there before it has left its old place, and
 * recovery walks in a circle. */
// levels: O2
// check: --recover-time-limit 300ms
// recover: {program} {dir}/pool check
#include "../recovery.h"

/* The list begins behind node 0 and ends before it. It is a cache: to lose a node is no harm. */
struct node {
  uint64_t next;
};

static void move_to_front(struct node *list, uint64_t before) {
  uint64_t node = list[before].next, behind = list[node].next;
  SET(list[node].next, list[0].next); // expect: recovery-hung
  SET(list[before].next, behind); // missing-store: recovery-hung
  SET(list[0].next, node);
}

static int recover(const struct node *list) {
  volatile int length = 0;
  for (uint64_t node = list[0].next; node != 0; node = list[node].next)
    length++;
  return length > 3;
}

int main(int argc, char **argv) {
  struct node *list = (struct node *)map_pool(argv[1]);
  if (argc > 2)
    return recover(list);
  for (uint64_t node = 3; node > 0; node--)
    SET(list[node].next, (node + 1) % 4);
  SET(list[0].next, 1);
  move_to_front(list, 1);
  return 0;
}
