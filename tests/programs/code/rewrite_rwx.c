/* Code in a page that is writable and executable at once is rewritten between calls. */
#include "generated.h"

int main(void) {
  unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(page != MAP_FAILED);
  for (int i = 0; i < 500; i++) {
    write_function(page + i % 3 * 64, i);
    check(call(page + i % 3 * 64) == i);
    page[i % 3 * 64 + 1] ^= 1; /* one byte of the constant */
    check(call(page + i % 3 * 64) == (i ^ 1));
  }
  say("rewritten");
  return 0;
}
