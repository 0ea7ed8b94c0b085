/* libpmemobj without transactions: atomic allocation, lists, reservations, reallocations, types and roots.
 *
 * @varying
 * @flags -lpmemobj -lpmem
 */
#include <libpmemobj.h>
#include "pm.h"

POBJ_LAYOUT_BEGIN(lists);
POBJ_LAYOUT_ROOT(lists, struct base);
POBJ_LAYOUT_TOID(lists, struct node);
POBJ_LAYOUT_END(lists);

struct node {
  uint64_t value;
  POBJ_LIST_ENTRY(struct node) link;
  char text[100];
};

struct base {
  POBJ_LIST_HEAD(node_list, struct node) head;
  PMEMoid blocks[200];
  PMEMmutex lock;
};

static int construct(PMEMobjpool *pool, void *at, void *argument) {
  struct node *node = at;
  node->value = *(uint64_t *)argument;
  pmemobj_memset_persist(pool, node->text, (int)node->value, sizeof node->text);
  pmemobj_persist(pool, &node->value, sizeof node->value);
  return 0;
}

int main(int argc, char **argv) {
  char path[4096];
  snprintf(path, sizeof path, "%s/pool", directory_of(argc, argv));
  PMEMobjpool *pool = pmemobj_create(path, POBJ_LAYOUT_NAME(lists), 64 << 20, 0600);
  check(pool);
  TOID(struct base) base = POBJ_ROOT(pool, struct base);
  struct base *root = D_RW(base);
  for (uint64_t i = 0; i < 300; i++) POBJ_LIST_INSERT_NEW_HEAD(pool, &root->head, link, sizeof(struct node), construct, &i);
  for (int i = 0; i < 100; i++) {
    TOID(struct node) first = POBJ_LIST_FIRST(&root->head);
    if (i % 2) POBJ_LIST_REMOVE_FREE(pool, &root->head, first, link);
    else POBJ_LIST_MOVE_ELEMENT_TAIL(pool, &root->head, &root->head, first, link, link);
  }
  for (int i = 0; i < 200; i++) check(pmemobj_alloc(pool, &root->blocks[i], (size_t)(i * i % 5000 + 16), 7, NULL, NULL) == 0);
  for (int i = 0; i < 200; i += 3) check(pmemobj_realloc(pool, &root->blocks[i], (size_t)(i * 50 + 64), 8) == 0);
  for (int i = 0; i < 200; i += 2) pmemobj_free(&root->blocks[i]);
  check(pmemobj_mutex_lock(pool, &root->lock) == 0 && pmemobj_mutex_unlock(pool, &root->lock) == 0);
  struct pobj_action actions[2];
  PMEMoid reserved = pmemobj_reserve(pool, &actions[0], 500, 9);
  check(!OID_IS_NULL(reserved));
  memset(pmemobj_direct(reserved), 'r', 500);
  pmemobj_set_value(pool, &actions[1], &root->blocks[0].off, reserved.off);
  check(pmemobj_publish(pool, actions, 2) == 0);
  TOID(struct node) node;
  int count = 0;
  POBJ_LIST_FOREACH(node, &root->head, link) count++;
  check(count == 250);
  pmemobj_close(pool);
  pool = pmemobj_open(path, POBJ_LAYOUT_NAME(lists));
  check(pool);
  pmemobj_close(pool);
  return 0;
}
