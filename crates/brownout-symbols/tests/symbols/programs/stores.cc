// Stores through C++ objects: methods, base classes, templates, references.
#include <cstdint>

#define OPERATION __attribute__((noinline, noclone)) void

struct versioned {
    std::uint64_t version;
    void advance() { version += 1; }
};

template <typename Key> struct leaf : versioned {
    Key keys[4];
    leaf *sibling;
    std::uint8_t used;

    __attribute__((noinline, noclone)) void add(Key key) {
        keys[2] = key;
        used = 3;
        advance();
    }
};

// As in libpmemobj and its bindings for C++.
struct pmemoid {
    std::uint64_t pool_uuid_lo, off;
};

char *pool;

template <typename T> struct persistent_ptr {
    pmemoid oid;
    T *operator->() const { return reinterpret_cast<T *>(pool + oid.off); }
};

struct holder {
    std::uint64_t first;
    persistent_ptr<leaf<std::uint16_t>> held;
};

OPERATION by_identifier(holder &h) { h.held->used = 2; }

OPERATION by_reference(leaf<std::uint16_t> &l) { l.sibling->used = 1; }

int main() {
    leaf<std::uint32_t> one{};
    leaf<std::uint16_t> two{};
    two.sibling = &two;
    one.add(5);
    by_reference(two);
    holder h{0, {{0, 0}}};
    pool = reinterpret_cast<char *>(&two);
    by_identifier(h);
    return one.used == 0;
}
