/* A process that holds little more than the C library forks.
 *
 * @flags -O2
 */
#include "bench/forks.h"

int main(void) { return print_fork_rate(); }
