/* Two million generated functions, 16 MiB a time, called through one pointer each: more than a cache keeps.
 *
 * @slow
 */
#include "generated.h"

int main(void) {
  enum { FUNCTIONS = 1 << 20, BYTES = 16 << 20 };
  unsigned char *area = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(area != MAP_FAILED);
  unsigned long sum = 0;
  for (int round = 0; round < 2; round++) {
    check(mprotect(area, BYTES, PROT_READ | PROT_WRITE) == 0);
    for (int i = 0; i < FUNCTIONS; i++) write_function(area + i * 16, i + round);
    check(mprotect(area, BYTES, PROT_READ | PROT_EXEC) == 0);
    for (int i = 0; i < FUNCTIONS; i += 3) sum += (unsigned long)call(area + i * 16);
  }
  printf("%lu\n", sum);
  return 0;
}
