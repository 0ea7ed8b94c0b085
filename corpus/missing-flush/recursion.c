/* A recursive walk of a tree misses a flush: one bug, however deep the recursion is when it happens. */
#include "../pm.h"

static struct line *pm;

static void visit(unsigned node, unsigned levels) {
  STORE(pm[node].word[0], node);
  PERSIST(pm[node]);
  STORE(pm[node].word[1], levels); // expect: missing-flush
  if (levels == 0)
    return;
  visit(2 * node, levels - 1);
  visit(2 * node + 1, levels - 1);
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  visit(1, 8);
  return 0;
}
