/* Text that decodes to a word. */
#include "guarded.h"

static int digit(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static int is_met(const struct store *store)
{
	uint32_t value = 0;
	for (int i = 0; i < 4; i++) {
		int bits = digit(in[i]);
		if (bits < 0)
			return 0;
		value = value << 6 | bits;
	}
	return value == 0x504d21;
}
