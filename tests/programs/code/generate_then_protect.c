/* Code is written, made executable, called, made writable, rewritten and called again.
 *
 * @build pie static musl
 */
#include "generated.h"

int main(void) {
  unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(page != MAP_FAILED);
  for (int i = 0; i < 200; i++) {
    check(mprotect(page, 8192, PROT_READ | PROT_WRITE) == 0);
    write_function(page, i);
    write_function(page + 4093, i + 1000); /* across the two pages */
    check(mprotect(page, 8192, PROT_READ | PROT_EXEC) == 0);
    check(call(page) == i && call(page + 4093) == i + 1000 && call(page) == i);
  }
  say("200 versions");
  return 0;
}
