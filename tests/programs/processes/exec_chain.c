/* A process that executes itself a hundred times.
 *
 * @build pie static
 */
#include "check.h"

int main(int argc, char **argv) {
  int number = argc > 1 ? atoi(argv[1]) : 0;
  if (number == 100) {
    say("a hundred");
    return 0;
  }
  char next[16];
  snprintf(next, sizeof next, "%d", number + 1);
  execl("/proc/self/exe", argv[0], next, (char *)NULL);
  return 1;
}
