/* A B-tree cuts the upper half off a leaf before the leaf that has taken it over is in the parent. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct leaf {
  uint64_t count, keys[4];
};

/* Leaf `i` holds the keys from `from[i]` up to `from[i + 1]`. */
struct tree {
  uint64_t keys, leaves, from[8];
  struct leaf leaf[8];
};

static uint64_t leaf_of(const struct tree *tree, uint64_t key) {
  uint64_t at = tree->leaves;
  while (at > 0 && tree->from[at] > key)
    at--;
  return at;
}

static void split(struct tree *tree) {
  struct leaf *left = &tree->leaf[tree->leaves], *right = left + 1;
  SET(right->keys[0], left->keys[2]);
  SET(right->keys[1], left->keys[3]);
  SET(right->count, 2);
  SET(tree->from[tree->leaves + 1], right->keys[0]);
  SET(left->count, 2); // expect: recovery-failed
  SET(tree->leaves, tree->leaves + 1); // missing-store: recovery-failed
}

static void insert(struct tree *tree, uint64_t key) {
  if (tree->leaf[tree->leaves].count == 4)
    split(tree);
  struct leaf *leaf = &tree->leaf[leaf_of(tree, key)];
  SET(leaf->keys[leaf->count], key);
  SET(leaf->count, leaf->count + 1);
  SET(tree->keys, tree->keys + 1);
}

static int recover(const struct tree *tree) {
  for (uint64_t key = 1; key <= tree->keys; key++) {
    const struct leaf *leaf = &tree->leaf[leaf_of(tree, key)];
    uint64_t at = 0;
    while (at < leaf->count && leaf->keys[at] != key)
      at++;
    REQUIRE(at < leaf->count);
  }
  return 0;
}

int main(int argc, char **argv) {
  struct tree *tree = (struct tree *)map_pool(argv[1]);
  if (argc > 2)
    return recover(tree);
  for (uint64_t key = 1; key < 8; key++)
    insert(tree, key);
  return 0;
}
