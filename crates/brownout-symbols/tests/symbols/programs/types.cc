// Types of C++: classes, inheritance, templates, references, static members.
#include <cstdint>

namespace store {

struct base {
    virtual ~base() = default;
    std::uint64_t version = 1;
    static int instances;
};

int base::instances = 0;

template <typename Key, int Count> struct leaf : base {
    Key keys[Count];
    leaf *sibling;
    struct position {
        int line, column;
    } at;
};

} // namespace store

store::leaf<std::uint32_t, 4> tree;
store::leaf<std::uint64_t, 2> other;

int main() { return tree.sibling == nullptr ? 0 : static_cast<int>(other.version); }
