/* Four mistakes with one line: two functions that forget a flush each, and one that forgets it before and after a fence. */
// causes: 4
#include "../pm.h"

static __attribute__((noinline)) void set_first(struct line *line) {
  STORE(line->word[0], 2); // expect: missing-flush
}

static __attribute__((noinline)) void set_second(struct line *line) {
  STORE(line->word[1], 2); // expect: missing-flush
}

static __attribute__((noinline)) void set_others(struct line *line, struct line *other) {
  STORE(line->word[2], 2); // expect: missing-flush
  STORE(other->word[0], 2);
  PERSIST(*other);
  STORE(line->word[3], 2); // expect: missing-flush
}

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  set_first(&pm[1]);
  set_second(&pm[1]);
  set_others(&pm[1], &pm[2]);
  return 0;
}
