/* A number of which a polynomial has a given value. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint16_t x;
	memcpy(&x, in + 3, sizeof x);
	uint32_t value = (uint32_t)x * x + 3u * x + 7;
	return value == 12345u * 12345u + 3u * 12345u + 7;
}
