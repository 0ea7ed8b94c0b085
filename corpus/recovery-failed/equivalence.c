/* Two values are swapped in two steps. Recovery prints what it finds: that must be what is in the file of as many
 * operations as were done, or in the next one, if the crash interrupted an operation. */
// args: {dir}/pool 3
// check: --op operate --expect-one-of {folder}/../recovery-failed/equivalence
// recover: {program} {dir}/pool print
#include "../recovery.h"
#include <string.h>

struct pair {
  uint64_t left, right;
};

static void swap(struct pair *pair) {
  uint64_t left = pair->left;
  SET(pair->left, pair->right); // expect: recovery-failed
  SET(pair->right, left); // missing-store: recovery-failed
}

__attribute__((noinline)) static void operate(struct pair *pair, int operation) {
  switch (operation) {
  case 0:
    SET(pair->left, 1);
    break;
  case 1:
    SET(pair->right, 2);
    break;
  default:
    swap(pair);
  }
}

int main(int argc, char **argv) {
  struct pair *pair = (struct pair *)map_pool(argv[1]);
  if (strcmp(argv[2], "print") == 0)
    return printf("%d %d\n", (int)pair->left, (int)pair->right) < 0;
  for (int operation = 0; operation < atoi(argv[2]); operation++)
    operate(pair, operation);
  return 0;
}
