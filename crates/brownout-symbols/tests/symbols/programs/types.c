/* Types of C: nested structs, unions, arrays, bit fields, typedefs, a flexible array. */
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uint64_t lock;
    char label[8];
} header_t;

struct slot {
    uint64_t key;
    union {
        uint64_t number;
        struct {
            uint32_t low, high;
        } halves;
    };
};

struct bucket {
    const header_t header;
    volatile struct slot slots[4];
    uint32_t matrix[2][3];
    unsigned first : 3, second : 13;
    struct bucket *next;
    struct elsewhere *opaque;
    unsigned char tail[];
};

struct bucket *last;

int main(void) {
    last = calloc(1, sizeof *last + 16);
    return last == NULL;
}
