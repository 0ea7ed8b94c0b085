/* Bytes of which each depends on the one before. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	for (int i = 1; i < 10; i++)
		if (in[i] != (unsigned char)(in[i - 1] * 3 + i))
			return 0;
	return in[0] > 0x40 && in[0] % 7 == 3;
}
