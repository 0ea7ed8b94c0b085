/* Two halves of a number in different places, in opposite orders of their bytes. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint16_t low, high;
	memcpy(&low, in + 1, 2);
	memcpy(&high, in + 20, 2);
	return low == 0x1f8b && __builtin_bswap16(high) == 0x7f45;
}
