/* A number of 32 bits. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t word;
	memcpy(&word, in, sizeof word);
	return word == 0xfeedc0de;
}
