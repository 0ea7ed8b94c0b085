/* A hexadecimal number with its prefix. */
#include "guarded.h"

static int is_met(const struct store *store)
{
	char *end;
	unsigned long value = strtoul((char *)in, &end, 16);
	return in[1] == 'x' && value == 0xbeef && *end == ';';
}
