/* A word in upper or lower case. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	return !strncasecmp((char *)in, "Rebalance", 9);
}
