/* Reads beyond the end of a mapped file.
 *
 * @signal SIGBUS
 */
#include "check.h"

int main(void) {
  say("before");
  FILE *file = fopen("empty", "w+");
  volatile char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
  (void)*map;
  say("after");
  return 0;
}
