/* Two decimal numbers with a given sum, the first the larger one. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	char *end;
	long a = strtol((char *)in, &end, 10), b = strtol(end, 0, 10);
	return a > b && b > 100 && a + b == 7777;
}
