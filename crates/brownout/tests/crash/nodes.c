/* A list in a mapped file: what each operation stores is known by type and field. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPERATION __attribute__((noipa))

struct entry {
    uint64_t key;
    char text[24];
    uint8_t valid;
};

struct node {
    struct node *next;
    struct entry entry;
    uint16_t tags[4];
};

struct root {
    uint64_t magic;
    uint64_t used;
    struct node *first;
};

static struct root *root;

static void persist(const void *at, size_t len) {
    for (uintptr_t line = (uintptr_t)at & ~63ul; line < (uintptr_t)at + len; line += 64)
        _mm_clflush((void *)line);
}

OPERATION static void *take(size_t size) {
    void *taken = (char *)root + root->used;
    root->used += (size + 63) & ~63ul;
    persist(root, sizeof *root);
    return taken;
}

OPERATION static void validate(struct entry *e) { e->valid = 1; }

OPERATION static void copy(void *to, const void *from, size_t len) { memcpy(to, from, len); }

static inline void set_key(struct entry *e, uint64_t key) { e->key = key; }

OPERATION static void tag(struct node *n, unsigned i) { n->tags[i] = 7; }

OPERATION static void put(uint64_t key, const char *text) {
    struct node *n = take(sizeof *n);
    set_key(&n->entry, key);
    copy(n->entry.text, text, 24);
    validate(&n->entry);
    tag(n, key % 4);
    n->next = root->first;
    persist(n, sizeof *n);
    root->first = n;
    persist(&root->first, sizeof root->first);
}

int main(int argc, char **argv) {
    static const char text[24] = "some text of a length";
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (argc < 3 || file < 0 || ftruncate(file, 1 << 16) != 0)
        return 1;
    root = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    root->magic = 42;
    root->used = 64;
    for (int i = 0; i < atoi(argv[2]); i++)
        put(i, text);
    return 0;
}
