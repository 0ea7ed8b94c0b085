/* Code is generated, run and thrown away: on new pages, and in place. */
#include "code/generated.h"
#include "soak.h"

int main(int argc, char **argv) {
  soak_start(argc, argv);
  int all = PROT_READ | PROT_WRITE | PROT_EXEC;
  unsigned char *same = mmap(NULL, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(same != MAP_FAILED);
  for (int round = 0; soak_on(); round++) {
    size_t length = (size_t)(round % 16 + 1) * 4096;
    unsigned char *fresh = mmap(NULL, length, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(fresh != MAP_FAILED);
    for (size_t at = 0; at < length; at += 512) {
      write_function(fresh + at, round);
      check(call(fresh + at) == round);
    }
    check(munmap(fresh, length) == 0);
    write_function(same + round % 32 * 64, round);
    check(call(same + round % 32 * 64) == round);
  }
  say("generated");
  return 0;
}
