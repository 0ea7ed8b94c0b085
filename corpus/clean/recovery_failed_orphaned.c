/* A child process hands in its result after its parent has unmapped the pool, and then says so. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <sys/wait.h>

struct pool {
  uint64_t started, finished, result;
};

static void work(struct pool *pool) {
  SET(pool->result, 42);
  SET(pool->finished, 1);
}

static int recover(const struct pool *pool) {
  REQUIRE(!pool->finished || (pool->started && pool->result == 42));
  return 0;
}

int main(int argc, char **argv) {
  struct pool *pool = (struct pool *)map_pool(argv[1]);
  if (argc > 2)
    return recover(pool);
  SET(pool->started, 1);
  int unmapped[2];
  char byte;
  if (pipe(unmapped) != 0)
    return 1;
  pid_t child = fork();
  if (child == 0) {
    close(unmapped[1]);
    if (read(unmapped[0], &byte, 1) == 0)
      work(pool);
    _exit(0);
  }
  munmap(pool, POOL_SIZE);
  close(unmapped[1]);
  int status = 1;
  return waitpid(child, &status, 0) != child || status != 0;
}
