/* A list in a pool of libpmemobj, whose objects are identified by TOIDs. */
#include <libpmemobj.h>
#include <stdlib.h>

POBJ_LAYOUT_BEGIN(types);
POBJ_LAYOUT_ROOT(types, struct list);
POBJ_LAYOUT_TOID(types, struct item);
POBJ_LAYOUT_TOID(types, struct table);
POBJ_LAYOUT_END(types);

struct item {
    TOID(struct item) next;
    uint64_t value;
    uint32_t state;
};

struct table {
    uint64_t slots;
    TOID(struct item) items[];
};

struct list {
    TOID(struct item) head;
    uint64_t length;
    TOID(struct table) table;
};

__attribute__((noipa)) static void set_state(struct item *item) { item->state = 1; }

__attribute__((noipa)) static void push(PMEMobjpool *pool, TOID(struct list) list, uint64_t value) {
    TX_BEGIN(pool) {
        TX_ADD(list);
        TOID(struct item) item = TX_NEW(struct item);
        D_RW(item)->value = value;
        D_RW(item)->next = D_RO(list)->head;
        set_state(D_RW(item));
        D_RW(list)->head = item;
        D_RW(list)->length++;
    }
    TX_END
}

__attribute__((noipa)) static void add_table(PMEMobjpool *pool, TOID(struct list) list) {
    TX_BEGIN(pool) {
        TX_ADD(list);
        size_t size = sizeof(struct table) + 8 * sizeof(TOID(struct item));
        D_RW(list)->table = TX_ZALLOC(struct table, size);
    }
    TX_END
}

__attribute__((noipa)) static void enter(TOID(struct list) list, unsigned slot) {
    TOID(struct table) table = D_RO(list)->table;
    D_RW(table)->items[slot].oid.off = D_RO(list)->head.oid.off;
}

int main(int argc, char **argv) {
    PMEMobjpool *pool = pmemobj_create(argv[1], POBJ_LAYOUT_NAME(types), PMEMOBJ_MIN_POOL, 0600);
    if (argc < 3 || pool == NULL)
        return 1;
    TOID(struct list) list = POBJ_ROOT(pool, struct list);
    for (int i = 0; i < atoi(argv[2]); i++)
        push(pool, list, i + 1);
    add_table(pool, list);
    for (int i = 0; i < atoi(argv[2]); i++)
        enter(list, i);
    pmemobj_close(pool);
    return 0;
}
