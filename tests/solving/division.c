/* A quotient and a remainder. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t x;
	memcpy(&x, in, sizeof x);
	return x / 1000 == 31337 && x % 1000 == 271;
}
