/* A hash map in a libpmemobj pool: chained buckets, every insert and removal a transaction. */
#ifndef HASH_MAP_H
#define HASH_MAP_H

#include <libpmemobj.h>
#include "check.h"

POBJ_LAYOUT_BEGIN(hash_map);
POBJ_LAYOUT_ROOT(hash_map, struct root);
POBJ_LAYOUT_TOID(hash_map, struct entry);
POBJ_LAYOUT_END(hash_map);

#ifndef BUCKETS
#define BUCKETS 1024
#endif

struct entry {
  uint64_t key, value;
  TOID(struct entry) next;
};

struct root {
  uint64_t count;
  TOID(struct entry) buckets[BUCKETS];
};

static uint64_t bucket_of(uint64_t key) { return (key * 0x9e3779b97f4a7c15 >> 40) % BUCKETS; }

static PMEMobjpool *map_create(const char *directory, const char *name, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  PMEMobjpool *pool = pmemobj_create(path, POBJ_LAYOUT_NAME(hash_map), size, 0600);
  if (!pool) dprintf(2, "%s\n", pmemobj_errormsg());
  check(pool);
  return pool;
}

/* Opens a map as after a crash; libpmemobj recovers it. */
__attribute__((unused)) static PMEMobjpool *map_open(const char *directory, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  PMEMobjpool *pool = pmemobj_open(path, POBJ_LAYOUT_NAME(hash_map));
  if (!pool) dprintf(2, "%s\n", pmemobj_errormsg());
  return pool;
}

/* Whether each entry is in its bucket and the count is right. */
__attribute__((unused)) static int map_is_sound(PMEMobjpool *pool) {
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  uint64_t count = 0;
  for (int bucket = 0; bucket < BUCKETS; bucket++)
    for (TOID(struct entry) entry = D_RO(root)->buckets[bucket]; !TOID_IS_NULL(entry); entry = D_RO(entry)->next) {
      if (bucket_of(D_RO(entry)->key) != (uint64_t)bucket) return 0;
      count++;
    }
  return count == D_RO(root)->count;
}

__attribute__((unused)) static void map_insert(PMEMobjpool *pool, uint64_t key, uint64_t value) {
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  uint64_t bucket = bucket_of(key);
  TX_BEGIN(pool) {
    TOID(struct entry) entry = TX_NEW(struct entry);
    D_RW(entry)->key = key;
    D_RW(entry)->value = value;
    D_RW(entry)->next = D_RO(root)->buckets[bucket];
    TX_ADD_FIELD(root, buckets[bucket]);
    D_RW(root)->buckets[bucket] = entry;
    TX_SET(root, count, D_RO(root)->count + 1);
  }
  TX_ONABORT { check(!"aborted"); }
  TX_END
}

__attribute__((unused)) static int map_remove(PMEMobjpool *pool, uint64_t key) {
  TOID(struct root) root = POBJ_ROOT(pool, struct root);
  uint64_t bucket = bucket_of(key);
  TOID(struct entry) previous = TOID_NULL(struct entry), entry = D_RO(root)->buckets[bucket];
  while (!TOID_IS_NULL(entry) && D_RO(entry)->key != key) previous = entry, entry = D_RO(entry)->next;
  if (TOID_IS_NULL(entry)) return 0;
  TX_BEGIN(pool) {
    if (TOID_IS_NULL(previous)) {
      TX_ADD_FIELD(root, buckets[bucket]);
      D_RW(root)->buckets[bucket] = D_RO(entry)->next;
    } else {
      TX_ADD_FIELD(previous, next);
      D_RW(previous)->next = D_RO(entry)->next;
    }
    TX_SET(root, count, D_RO(root)->count - 1);
    TX_FREE(entry);
  }
  TX_ONABORT { check(!"aborted"); }
  TX_END
  return 1;
}

#endif
