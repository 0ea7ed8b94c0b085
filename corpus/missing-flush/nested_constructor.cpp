/* The constructors of an object and of its part forget the same flush: one mistake. */
// causes: 1
#include "../pm.h"
#include <new>

struct Header {
  uint64_t magic, level;
  __attribute__((noinline)) explicit Header(uint64_t level) {
    STORE(magic, 0xb0); // expect: missing-flush
    STORE(this->level, level); // expect: missing-flush
  }
};

struct Page {
  Header header;
  uint64_t count;
  __attribute__((noinline)) Page() : header(1) {
    STORE(count, 7); // expect: missing-flush
  }
};

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  new (&pm[1]) Page();
  return 0;
}
