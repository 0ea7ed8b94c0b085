/* The allocator finds a double free and ends the program.
 *
 * @signal SIGABRT
 */
#include "check.h"

int main(void) {
  void *volatile block = malloc(100);
  free(block);
  say("before");
  free(block);
  say("after");
  return 0;
}
