/* A list moves its tail before the new node is linked. A crash in between leaves a sound list and loses nothing that was
 * done; it shows when the program goes on from there and appends behind a node that nobody can reach. */
// check: --op append
// recover: {program} {dir}/pool resume
#include "../recovery.h"

enum { OPERATIONS = 6 };

/* Operation k appends node k + 1; the list begins behind node 0. */
struct list {
  uint64_t tail, next[OPERATIONS + 1];
};

__attribute__((noinline)) static void append(struct list *list, uint64_t operation) {
  uint64_t last = list->tail;
  SET(list->tail, operation + 1); // expect: recovery-failed
  SET(list->next[last], operation + 1); // missing-store: recovery-failed
}

static int holds_all_but(const struct list *list, uint64_t missing) {
  uint64_t node = 0;
  for (uint64_t expected = 1; expected <= OPERATIONS; expected++)
    if (expected != missing && (node = list->next[node]) != expected)
      return 0;
  return list->next[node] == 0;
}

/* Continues after the operation that the crash interrupted, and compares with a run with and without that operation. */
static int resume(struct list *list) {
  uint64_t done = atoi(getenv("BROWNOUT_OP")), active = atoi(getenv("BROWNOUT_OP_ACTIVE"));
  for (uint64_t operation = done + active; operation < OPERATIONS; operation++)
    append(list, operation);
  REQUIRE(holds_all_but(list, 0) || (active && holds_all_but(list, done + 1)));
  return 0;
}

int main(int argc, char **argv) {
  struct list *list = (struct list *)map_pool(argv[1]);
  if (argc > 2)
    return resume(list);
  for (uint64_t operation = 0; operation < OPERATIONS; operation++)
    append(list, operation);
  return 0;
}
