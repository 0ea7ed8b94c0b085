/* A number of 64 bits that is multiplied and rotated before it is compared. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint64_t word;
	memcpy(&word, in + 8, sizeof word);
	word *= 0x9e3779b97f4a7c15;
	return (word << 13 | word >> 51) == 0x0123456789abcdef;
}
