/* A node that takes the place of another ends the list, and is linked before that is durable: it may still point to the first node. */
// check: --strategy exhaustive --recover-time-limit 2s
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct pool {
  struct line head;
  struct line next[3];
};

static void reuse(struct pool *pool) {
  STORE(pool->next[2].word[0], 0); // confirmed: delayed-persist // expect: unpersisted-read // missing-store: recovery-hung
  STORE(pool->next[1].word[0], 2);
  PERSIST(pool->next[1]); // expect: recovery-hung
  PERSIST(pool->next[2]);
}

static int recover(const volatile struct pool *pool) {
  uint64_t at = pool->head.word[0];
  while (at)
    at = pool->next[at].word[0];
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(pool->next[2].word[0], 1);
  SET(pool->head.word[0], 1);
  reuse(pool);
  return 0;
}
