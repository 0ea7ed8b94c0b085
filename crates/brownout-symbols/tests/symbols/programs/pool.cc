// C++: a method of a class template in a namespace, called from an overloaded function.
#define MARK(name) __asm__ volatile(".globl " #name "\n" #name ":")

namespace pool {
volatile long cell;

template <typename T> struct Map {
  __attribute__((noipa)) void insert(T key) {
    MARK(in_method);
    cell = static_cast<long>(key); // line in_method
  }
};
}  // namespace pool

int main() {
  pool::Map<int> map;
  map.insert(3);
  return 0;
}
