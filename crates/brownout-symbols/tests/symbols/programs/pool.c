/* A store two inlined calls deep, and a plain call. MARK labels the address after it, so that a test
 * can ask for exactly that line. */
#define MARK(name) __asm__ volatile(".globl " #name "\n" #name ":")

static volatile long cell;

static inline __attribute__((always_inline)) void store(long value) {
  MARK(in_store);
  cell = value; /* line in_store */
}

static inline __attribute__((always_inline)) void insert(long key) {
  store(key + 1); /* line in_insert */
}

__attribute__((noinline)) void transact(long key) {
  insert(key); /* line in_transact */
}

__attribute__((noinline)) void twice(long key) {
  transact(key); /* line first_call */
  MARK(after_call);
  cell = 7; /* line after_call */
}

int main(void) {
  twice(41);
  return 0;
}
