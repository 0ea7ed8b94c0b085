/* A pool of 8 GiB of which a few lines are used: a slot far out is taken before it is filled. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

enum { SLOTS = 4 };

static struct line *slot(struct line *pm, uint64_t number) { return pm + (number + 1) * (1 << 24); }

static void fill(struct line *pm, uint64_t number) {
  SET(pm->word[number], 1); // expect: recovery-failed
  SET(slot(pm, number)->word[0], 1000 + number); // missing-store: recovery-failed
}

static int recover(struct line *pm) {
  for (uint64_t number = 0; number < SLOTS; number++)
    REQUIRE(pm->word[number] == 0 || slot(pm, number)->word[0] == 1000 + number);
  return 0;
}

int main(int argc, char **argv) {
  const size_t size = 8ull << 30;
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, size) != 0)
    return 1;
  struct line *pm = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pm == MAP_FAILED)
    return 1;
  if (argc > 2)
    return recover(pm);
  for (uint64_t number = 0; number < SLOTS; number++)
    fill(pm, number);
  return 0;
}
