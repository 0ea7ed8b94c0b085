/* A decimal number. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	return atoi((char *)in) == 86413;
}
