/* Two values are swapped in one step: whenever the crash comes, they are swapped or not. */
// args: {dir}/pool 3
// check: --op operate --expect-one-of {folder}/../recovery-failed/equivalence
// recover: {program} {dir}/pool print
#include "../recovery.h"
#include <string.h>

struct pair {
  uint64_t both;
};

static void swap(struct pair *pair) {
  SET(pair->both, pair->both << 32 | pair->both >> 32);
}

__attribute__((noinline)) static void operate(struct pair *pair, int operation) {
  switch (operation) {
  case 0:
    SET(pair->both, 1);
    break;
  case 1:
    SET(pair->both, pair->both | 2ull << 32);
    break;
  default:
    swap(pair);
  }
}

int main(int argc, char **argv) {
  struct pair *pair = (struct pair *)map_pool(argv[1]);
  if (strcmp(argv[2], "print") == 0)
    return printf("%d %d\n", (int)pair->both, (int)(pair->both >> 32)) < 0;
  for (int operation = 0; operation < atoi(argv[2]); operation++)
    operate(pair, operation);
  return 0;
}
