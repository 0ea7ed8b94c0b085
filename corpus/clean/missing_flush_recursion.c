/* A recursive walk of a tree that flushes what it stores. */
#include "../pm.h"

static struct line *pm;

static void visit(unsigned node, unsigned levels) {
  STORE(pm[node].word[0], node);
  PERSIST(pm[node]);
  STORE(pm[node].word[1], levels);
  PERSIST(pm[node]);
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
