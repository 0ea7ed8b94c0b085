/* Fields of a packed word, one of them signed. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	uint32_t word;
	memcpy(&word, in + 4, sizeof word);
	int32_t offset = (int32_t)word << 3 >> 20;
	return word >> 29 == 5 && offset == -300 && (word & 0x1ff) == 0x0aa;
}
