/* A word, compared by the C library. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	return !strncmp((char *)in, "snapshot ", 9);
}
