/* libpmemobj: opens a pool of 8 MiB, or creates it, and changes a list in it as the lines of standard input say: `i` inserts a number, `d`
 * deletes the first one, `s` adds them up. What a fuzzer executes again and again. The path of the pool is the first argument.
 *
 * @flags -O2 -lpmemobj -lpmem
 */
#include <libpmemobj.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
  uint64_t number;
  PMEMoid next;
};
struct root {
  PMEMoid first;
  uint64_t count;
};

static void insert(PMEMobjpool *pool, PMEMoid root, uint64_t number) {
  struct root *list = pmemobj_direct(root);
  TX_BEGIN(pool) {
    pmemobj_tx_add_range(root, 0, sizeof *list);
    PMEMoid id = pmemobj_tx_alloc(sizeof(struct node), 1);
    struct node *node = pmemobj_direct(id);
    node->number = number;
    node->next = list->first;
    list->first = id;
    list->count++;
  }
  TX_END
}

static void delete_first(PMEMobjpool *pool, PMEMoid root) {
  struct root *list = pmemobj_direct(root);
  if (list->count == 0) return;
  TX_BEGIN(pool) {
    pmemobj_tx_add_range(root, 0, sizeof *list);
    PMEMoid id = list->first;
    struct node *node = pmemobj_direct(id);
    list->first = node->next;
    list->count--;
    pmemobj_tx_free(id);
  }
  TX_END
}

static uint64_t sum(PMEMoid root) {
  struct root *list = pmemobj_direct(root);
  uint64_t all = 0;
  for (struct node *node = pmemobj_direct(list->first); node; node = pmemobj_direct(node->next))
    all += node->number;
  return all;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  PMEMobjpool *pool = pmemobj_open(argv[1], "list");
  if (!pool) pool = pmemobj_create(argv[1], "list", PMEMOBJ_MIN_POOL, 0666);
  if (!pool) return 3;
  PMEMoid root = pmemobj_root(pool, sizeof(struct root));
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'i') insert(pool, root, strtoul(line + 1, NULL, 10));
    if (line[0] == 'd') delete_first(pool, root);
    if (line[0] == 's') printf("%lu\n", sum(root));
  }
  pmemobj_close(pool);
  return 0;
}
