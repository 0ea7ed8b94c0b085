/* A process that has loaded libpmemobj forks.
 *
 * @flags -O2 -lpmemobj
 */
#include <libpmemobj.h>
#include "bench/forks.h"

int main(void) {
  check(!pmemobj_check_version(PMEMOBJ_MAJOR_VERSION, PMEMOBJ_MINOR_VERSION));
  return print_fork_rate();
}
