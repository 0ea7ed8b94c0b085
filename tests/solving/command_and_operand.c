/* A command of several letters with a number in a small range. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	return !memcmp(in, "resize", 6) && in[6] == ' ' && atoi((char *)in + 7) == 4096;
}
