/* The record that an index entry points to is never flushed; its address is. */
// variants: clwb clflushopt
#include "../pm.h"

struct pool {
  struct line *index[8];
  struct line records[8];
};

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  for (uint64_t i = 0; i < 2; i++) {
    STORE(pool->records[i].word[0], i);
    STORE(pool->records[i].word[1], i * i);
    STORE(pool->index[i], &pool->records[i]); // expect: unpersisted-target
    PERSIST(pool->index[i]);
  }
  return 0;
}
