/* Stores through pointers of all kinds. Each function stores to the fields that the test names. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t key;
    union {
        uint64_t number;
        char text[24];
    } value;
    uint8_t valid;
};

struct pair {
    struct entry first, second;
};

struct node {
    struct node *next;
    struct pair *pair;
    uint32_t count;
};

struct bucket {
    uint64_t lock;
    struct entry slots[4];
    uint16_t tags[8];
};

struct node *head;
static struct {
    struct bucket *bucket;
} globals;

#define OPERATION __attribute__((noipa)) void

OPERATION plain(struct entry *e, uint64_t key) {
    e->key = key;
    e->valid = 1;
}

static inline void mark(struct entry *e) { e->valid = 1; }

OPERATION through_inlined(struct pair *p) { mark(&p->second); }

OPERATION through_members(struct node *n, uint64_t key) { n->next->next->pair->second.key = key; }

OPERATION at_end_of_list(struct node *n, struct node *added) {
    while (n->next)
        n = n->next;
    n->next = added;
}

OPERATION in_slot(struct bucket *b, unsigned i, uint64_t key) { b->slots[i].key = key; }

OPERATION in_each(struct node *nodes, size_t count) {
    for (size_t i = 0; i < count; i++)
        nodes[i].count = 7;
}

OPERATION in_global(void) {
    head->count = 1;
    globals.bucket->lock = 0;
}

__attribute__((noipa)) struct node *take(void) { return head; }

OPERATION in_result(void) { take()->count = 3; }

OPERATION in_allocated(void) {
    struct node *n = malloc(sizeof *n);
    n->count = 5;
    head = n;
}

OPERATION by_case(struct bucket *b, int what) {
    struct entry *e = &b->slots[1];
    switch (what) {
    case 0: e->key = 1; break;
    case 1: b->lock = 2; break;
    case 2: e->value.number = 3; break;
    case 3: b->tags[3] = 4; break;
    case 4: b->tags[5] = 5; break;
    case 5: e->valid = 6; break;
    }
}

OPERATION by_copy(struct entry *e, const char *text, size_t len) { memcpy(e->value.text + 4, text, len); }

static inline void construct(struct entry *e) {
    e->key = 5;
    e->valid = 6;
}

/* Where the object is constructed, one register holds its end and only another one its typed address. */
OPERATION before_the_end(char **end, char *start) {
    char *last = __atomic_fetch_sub(end, sizeof(struct entry), __ATOMIC_SEQ_CST);
    void *memory = last - sizeof(struct entry);
    if ((char *)memory >= start)
        construct(memory);
}

OPERATION without_type(void *raw) { ((uint64_t *)raw)[2] = 9; }

OPERATION passes_on(struct pair *p) { without_type(&p->second); }

int main(int argc, char **argv) {
    struct pair *pair = calloc(1, sizeof *pair);
    struct node *nodes = calloc(4, sizeof *nodes);
    globals.bucket = calloc(1, sizeof *globals.bucket);
    nodes[0].next = &nodes[1];
    nodes[1].next = &nodes[2];
    nodes[2].pair = pair;
    plain(&pair->first, argc);
    through_inlined(pair);
    through_members(nodes, argc);
    in_slot(globals.bucket, argc, 1);
    in_each(nodes, 4);
    in_allocated();
    in_global();
    in_result();
    at_end_of_list(nodes, head);
    by_case(globals.bucket, argc);
    by_copy(&pair->first, argv[0], 4);
    passes_on(pair);
    char *end = (char *)(pair + 1);
    before_the_end(&end, (char *)pair);
    return 0;
}
