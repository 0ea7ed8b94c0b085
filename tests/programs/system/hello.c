/* Says hello, in every way a program can be linked.
 *
 * @build pie nopie static static-pie musl musl-static
 */
#include "check.h"

int main(int argc, char **argv) {
  printf("hello %d %s\n", argc, strrchr(argv[0], '/') + 1);
  return 0;
}
