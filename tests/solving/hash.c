/* A hash of four bytes with a given value. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t hash = 2166136261;
	for (int i = 0; i < 4; i++)
		hash = (hash ^ in[i]) * 16777619;
	return (hash & 0xffffff) == 0xabcdef;
}
