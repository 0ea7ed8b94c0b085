/* The first file says that there is a second one before there is. */
// args: {dir}/first {dir}/second
// recover: {program} {dir}/first {dir}/second check
#include "../recovery.h"

static void extend(struct line *first, const char *path) {
  SET(first->word[0], 2); // known-miss: recovery-failed because a file that is made later is there from the beginning
  struct line *second = map_pool(path);
  SET(second->word[0], 1);
}

static int recover(const struct line *first, const char *path) {
  if (first->word[0] < 2)
    return 0;
  REQUIRE(access(path, R_OK) == 0);
  return 0;
}

int main(int argc, char **argv) {
  struct line *first = map_pool(argv[1]);
  if (argc > 3)
    return recover(first, argv[2]);
  SET(first->word[0], 1);
  extend(first, argv[2]);
  return 0;
}
