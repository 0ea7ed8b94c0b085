/* A record whose length field counts the bytes up to its mark. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	unsigned length = in[0];
	if (length < 12 || length >= size)
		return 0;
	return in[length] == 0x99 && in[length - 1] == length;
}
